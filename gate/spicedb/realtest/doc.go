// Package realtest runs the contract of gate/spicedb against a real SpiceDB in
// the process. It is a module of its own, because SpiceDB brings hundreds of
// modules with it:
//
//	cd gate/spicedb/realtest && go test ./...
//
// The first build takes minutes.
package realtest
