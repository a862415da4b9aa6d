//go:build !race

package sandbox

// roomForTests is how much memory a child needs to run at all.
const roomForTests = 256 << 20

// raced tells that children start slowly, and fewer of them have to do: there is no
// race in them to be found.
const raced = false
