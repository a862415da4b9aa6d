//go:build race

package sandbox

// roomForTests is how much memory a child needs to run at all: the race detector
// keeps books on its memory.
const roomForTests = 1 << 30

// raced tells that children start slowly, and fewer of them have to do: there is no
// race in them to be found.
const raced = true
