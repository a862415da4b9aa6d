//go:build !race

package sandbox

// roomForTests is how much memory a child needs to run at all.
const roomForTests = 256 << 20
