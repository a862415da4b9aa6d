package filelock

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

var (
	kernel32         = syscall.NewLazyDLL("kernel32.dll")
	procLockFileEx   = kernel32.NewProc("LockFileEx")
	procUnlockFileEx = kernel32.NewProc("UnlockFileEx")
)

// openFlags is empty: making a link needs a privilege here.
const openFlags = 0

const (
	lockfileFailImmediately = 0x1
	lockfileExclusiveLock   = 0x2

	errorLockViolation syscall.Errno = 33
)

// lockRegion is one byte far after the content. Locks are mandatory here, and the
// process id at the start must stay readable for others.
func lockRegion() *syscall.Overlapped {
	return &syscall.Overlapped{OffsetHigh: 0x4000_0000}
}

// tryLock takes the lock of f without waiting, exclusive or shared.
func tryLock(f *os.File, alone bool) error {
	how := uintptr(lockfileFailImmediately)
	if alone {
		how |= lockfileExclusiveLock
	}
	ok, _, err := procLockFileEx.Call(f.Fd(), how, 0, 1, 0,
		uintptr(unsafe.Pointer(lockRegion())))
	switch {
	case ok != 0:
		return nil
	case errors.Is(err, errorLockViolation), errors.Is(err, syscall.ERROR_IO_PENDING):
		return errLocked
	}
	return err
}

func unlock(f *os.File) error {
	ok, _, err := procUnlockFileEx.Call(f.Fd(), 0, 1, 0, uintptr(unsafe.Pointer(lockRegion())))
	if ok != 0 {
		return nil
	}
	return err
}
