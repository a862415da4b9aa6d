// Package config reads what a person writes down: an MCP client's own file,
// unedited, or a toolgate file. It turns either into plain data and does
// nothing else: it starts no process and dials nobody. [Toolgate] is the table of all
// sections. The packages that use their settings declare the types, and this package
// those that belong to no other (ADR 0061).
//
// A file passes through five stages:
//
//   - package format reads JSON (with comments and trailing commas), YAML or
//     TOML into one tree of [tree.Node] that knows the line of everything;
//   - overrides (flags, then TOOLGATE_* variables) are laid over the
//     "toolgate" section of that tree;
//   - the section is decoded strictly into [Toolgate];
//   - package clients finds the client's servers, whatever the client calls them,
//     and reads each entry without any setting of toolgate;
//   - the two are joined: what the section says of a server is laid over its entry,
//     which makes it a [Server] of the [Config], and that is checked as a whole.
//
// Two kinds of fault are kept apart. Broken syntax, a wrong toolgate section
// and clashing names are faults of the file: [Load] returns them all at once,
// each with file, line, key and what to write instead. A server that cannot be
// started as written (an unset variable, a transport that is not supported) is
// refused alone, in [Server.Refused], and the rest of the file is used.
//
// Everything under "toolgate" is strict, everything else belongs to a client
// and is read leniently: unknown keys are ignored there.
//
// Values that may be credentials have type [secret.Text] and print as "[redacted]".
package config

//go:generate go test -count=1 -run=TestSchema -update .
//go:generate go test -count=1 -run=TestLimitsPage|TestSettingsPages -update .
