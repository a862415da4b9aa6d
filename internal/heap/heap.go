// Package heap keeps the collector from running for every few megabytes of a small
// heap: a gateway needs little memory, and collections were a tenth of what a call
// costs, and a third of what it costs to start.
//
// Go initialises, among the packages whose imports are, the one with the smallest
// path first. This one imports nothing, so that the initialisation of the rest,
// which allocates some megabytes, is over before anything is collected.
package heap

// Floor is never touched, so that it takes address space alone; what a burst leaves
// behind is given back when the process rests.
var Floor = make([]byte, 24<<20)
