//go:build race

package replay

// memory is how many bytes a process may use. The race detector keeps books on its memory.
const memory = 2 << 30
