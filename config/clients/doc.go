// Package clients reads the files of MCP clients: which entries of a file are servers,
// whatever the client calls them, and what each entry says. It knows nothing of toolgate's
// own section and its settings; package config lays those over what is read here.
//
// [Find] finds the entries of a file, [Reader] turns each into a [Server]. Everything in
// a client's file is read leniently: keys that this package does not know are ignored. An
// entry that cannot be started as it is written is refused alone, in [Server.Refused].
//
// To read one more client's file, add its [Client], say in [Find] where it has its servers,
// and read its spellings of a field where the others are read: what is started or reached
// in transport.go, what is secret in credentials.go, deadlines in timeouts.go, variables in
// variables.go. Where clients have their files, and how an entry of toolgate is
// written into them, is the table in cmd/toolgate/clients.
package clients
