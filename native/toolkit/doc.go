// Package toolkit is what a shipped tool is, without the wire that it is called
// over: a definition, and a function from arguments to a result.
//
// A plugin process is entered before the rest of the program is initialised, so
// this package, and what implements its tools, imports little besides the standard
// library and keeps no work in package initialisation.
package toolkit
