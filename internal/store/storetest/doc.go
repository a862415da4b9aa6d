// Package storetest is the test suite of internal/store for every database, with a
// PostgreSQL server for tests that need one.
//
// The server runs from the binaries of the machine. It listens on a Unix socket in a
// folder of its own, and ends with the test process. Without the binaries a test that
// needs it fails and says how to install them.
package storetest
