// Package storetest is the suite that every database of internal/store
// passes, and a PostgreSQL server of its own for tests that need one.
//
// The server is the real one, from the binaries of the machine: it listens on
// a Unix socket in a folder of its own, belongs to the test process and ends
// with it. Where the binaries are absent a test that needs it fails and says how
// to install them.
package storetest
