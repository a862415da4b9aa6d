// Package shim is the side of a confinement that runs inside the process that is
// confined: it takes rights away from the process and then becomes the program.
//
// A program that imports this package, as everything does that imports
// internal/sandbox, can be started again as a shim: under the name [Name], with the
// number of a descriptor that holds a [Plan] as its one argument. Whoever can start
// a process under another name can start that program itself, so there is nothing
// to gain from doing it by hand.
//
// The shim is entered in package initialisation. Go initialises a package when all
// that it imports is, and among several that are ready the one whose path is first;
// so this package imports nothing but syscall, and runs before the rest of a large
// program is set up.
package shim
