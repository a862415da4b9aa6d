//go:build !windows

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// openFlags refuse links and do not wait for the other end of a pipe.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// tryLock takes the advisory lock of f without waiting, exclusive or shared. flock
// belongs to the open file and not to the process, so a second Open in the same process
// is refused too, and SQLite's own locks are not affected.
func tryLock(f *os.File, alone bool) error {
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	for {
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLocked
		default:
			return err
		}
	}
}

func unlock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
}
