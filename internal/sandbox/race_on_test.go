//go:build race

package sandbox

// roomForTests is how much memory a child needs to run at all: the race detector
// keeps books on its memory.
const roomForTests = 1 << 30
