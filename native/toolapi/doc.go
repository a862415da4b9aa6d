// Package toolapi is what a tool and a plugin are, whoever serves them: native/sdk in a
// program of somebody else, native/embedded in a process of toolgate's own program.
// [Add] adds a typed function, [Plugin.Add] a tool with schemas that were written by hand.
//
// A shipped plugin is served before the rest of the program is initialised. So this
// package, and what implements shipped tools, imports little besides the standard
// library and does no work in package initialisation.
package toolapi
