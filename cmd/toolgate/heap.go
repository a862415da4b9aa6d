package main

// heapFloor keeps the collector from running for every few megabytes of a small
// heap: a gateway needs little memory, and collections were a tenth of what a
// call costs. It is never touched, so that it takes address space alone; what a
// burst leaves behind is given back when the process rests (see rest.go).
var heapFloor = make([]byte, 8<<20)
