//go:build !windows

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the exclusive advisory lock of f without waiting. flock
// belongs to the open file and not to the process, so a second Open in the
// same process is refused too, and SQLite's own locks are not touched.
func tryLock(f *os.File) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
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
