// Package filelock reserves a file for one process. [Take] locks a file beside it. The
// system releases the lock when the process ends, however it ends. The lock is
// advisory: readers need none.
package filelock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Suffix is appended to the path of the file. The lock file stays after the lock is
// released: removing it would let two processes lock two files of one name.
const Suffix = ".lock"

// errLocked is returned by tryLock when another process, or another Take in this one,
// has the lock.
var errLocked = errors.New("locked")

// HeldError means that another process has the lock.
type HeldError struct {
	Path string // the file
	PID  int    // of the holder; 0 when unknown
}

// Error implements error.
func (e *HeldError) Error() string { return e.Path + " is in use by " + e.Holder() }

// Holder describes the holder of the lock.
func (e *HeldError) Holder() string {
	if e.PID > 0 {
		return "process " + strconv.Itoa(e.PID)
	}
	return "another process"
}

// Lock is a held lock; Close releases it.
type Lock struct {
	f *os.File
}

// Take locks the file at path, whose folder must exist, and writes our process id into
// the lock file. It returns a [*HeldError] when another has the lock, and never waits.
func Take(path string) (*Lock, error) {
	f, err := open(path+Suffix, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := try(f, path, true); err != nil {
		f.Close()
		return nil, err
	}
	l := &Lock{f: f}
	if err := l.sign(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Free reports whether the lock of the file at path could be taken, without taking it.
// It creates no file; without a lock file the lock is free. It returns a [*HeldError]
// when somebody has the lock. It never waits, but a Take at the same moment is refused.
func Free(path string) error {
	f, err := open(path+Suffix, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() // releases the lock
	return try(f, path, false)
}

// open opens a lock file. It refuses links and pipes: with a link, anybody who can
// write the folder could have us truncate another file, and a pipe would block.
func open(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|openFlags, 0o600)
	if err != nil {
		if info, no := os.Lstat(path); no == nil && info.Mode()&os.ModeSymlink != 0 {
			return nil, notOurs(path)
		}
		return nil, err
	}
	there, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if is, err := f.Stat(); err != nil || !there.Mode().IsRegular() || !os.SameFile(is, there) {
		return nil, errors.Join(notOurs(path), err, f.Close())
	}
	return f, nil
}

func notOurs(path string) error {
	return fmt.Errorf("%s is a lock file, and what stands there is no regular file: see who put it there, and remove it", path)
}

// try locks an open lock file: alone, or shared with others that only check it.
func try(f *os.File, path string, alone bool) error {
	switch err := tryLock(f, alone); {
	case errors.Is(err, errLocked):
		return &HeldError{Path: path, PID: readPID(f)}
	case err != nil:
		return fmt.Errorf("%s: %w: put it on a local file system", path+Suffix, err)
	}
	return nil
}

// sign writes our process id into the lock file.
func (l *Lock) sign() error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// Close releases the lock. It removes the process id first, so that a lock file never
// names a process that does not hold it.
func (l *Lock) Close() error {
	return errors.Join(l.f.Truncate(0), unlock(l.f), l.f.Close())
}

// readPID returns the process id in a lock file, or 0.
func readPID(f *os.File) int {
	const most = 32 // more than the longest number
	b, err := io.ReadAll(io.NewSectionReader(f, 0, most))
	if err != nil || len(b) == most {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
