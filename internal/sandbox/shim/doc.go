// Package shim is the part of a confinement that runs inside the confined process: it
// drops the process's rights and then becomes the program.
//
// Every program that imports this package, directly or through internal/sandbox, can
// be started again as a shim: under the name [Name], with the number of a descriptor
// that contains a [Plan] as its only argument. That gives nobody new rights: whoever
// can start a process under another name can also start the program itself.
//
// The shim runs during package initialization. Go initializes a package once its
// imports are initialized, and among ready packages the one with the first path. This
// package imports nothing but syscall, so it runs before the rest of a large program.
package shim
