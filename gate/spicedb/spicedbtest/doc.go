// Package spicedbtest is a SpiceDB for tests, and the tests that everything
// that answers its questions passes.
//
// [Server] is a gRPC server in the process that evaluates one fixed schema and
// fails where it is told to. It refuses the object ids that SpiceDB refuses,
// and can read old revisions as SpiceDB does for who asks for the least delay.
// [Run] is the contract; the builtin backend, Server and a real SpiceDB pass it.
package spicedbtest
