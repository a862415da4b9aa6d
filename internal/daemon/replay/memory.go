//go:build !race

package replay

// memory is how many bytes a process may use.
const memory = 512 << 20
