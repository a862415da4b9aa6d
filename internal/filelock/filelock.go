// Package filelock keeps a file to one process. The lock is on a file beside it,
// and the system takes it back when its process ends, however it ends. It binds
// only those who ask for it: readers do not.
package filelock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Suffix is appended to the path of the file. The lock file stays when the lock is
// released: removing it would let two processes lock two files of one name.
const Suffix = ".lock"

// errLocked is what tryLock returns when another process, or another Take in
// this one, has the lock.
var errLocked = errors.New("locked")

// HeldError says that another process has the lock.
type HeldError struct {
	Path string // the file
	PID  int    // who holds it; 0 when it did not say
}

// Error implements error.
func (e *HeldError) Error() string { return e.Path + " is in use by " + e.Holder() }

// Holder names who has the lock.
func (e *HeldError) Holder() string {
	if e.PID > 0 {
		return "process " + strconv.Itoa(e.PID)
	}
	return "another process"
}

// Lock is held until it is closed.
type Lock struct {
	f *os.File
}

// Take takes the lock of the file at path, whose folder must exist, and writes our
// process id into it. It returns a [*HeldError] when another has it, and never
// waits.
func Take(path string) (*Lock, error) {
	f, err := os.OpenFile(path+Suffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := tryLock(f); {
	case errors.Is(err, errLocked):
		holder := readPID(f)
		f.Close()
		return nil, &HeldError{Path: path, PID: holder}
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("%w: put it on a local file system", err)
	}
	l := &Lock{f: f}
	if err := l.sign(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// sign replaces the content of the lock file by our process id.
func (l *Lock) sign() error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// Close gives the lock back. The process id goes first, so that a lock file
// never names a process that does not hold it while this one still could.
func (l *Lock) Close() error {
	return errors.Join(l.f.Truncate(0), unlock(l.f), l.f.Close())
}

// readPID returns the process id in a lock file, or 0.
func readPID(f *os.File) int {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
