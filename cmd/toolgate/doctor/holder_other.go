//go:build !linux

package doctor

// Holder returns the process that listens on an address of this machine: its id and its
// program. The id is 0, because that is not known on this system.
func Holder(string) (pid int, program string) { return 0, "" }
