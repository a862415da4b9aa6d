//go:build !windows

package listen

import (
	"math"
	"syscall"
)

// openFiles is how many files this process may have open; 0 where that is not
// bounded.
func openFiles() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil || uint64(r.Cur) > math.MaxInt32 { // it is signed on some systems
		return 0
	}
	return int(r.Cur) // compared above
}
