package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// lockSuffix is appended to the path of the store. The lock file stays when
// the lock is released: removing it would let two processes lock two files of
// one name.
const lockSuffix = ".lock"

// Claim takes the lock that a store in a file at path would take, for a process
// whose store is elsewhere and that must be the only one of its folder all the
// same. The folder must exist. It returns an [*InUseError] when another has it,
// and never waits. The lock ends with Close, or with the process.
func Claim(path string) (io.Closer, error) {
	l, err := acquire(path)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Close implements io.Closer.
func (l *fileLock) Close() error { return l.release() }

// errLocked is what tryLock returns when another process, or another Open in
// this one, has the lock.
var errLocked = errors.New("locked")

// InUseError says that another process has the store open for writing.
type InUseError struct {
	Path string // the store
	PID  int    // who holds it; 0 when it did not say
}

// Error implements error.
func (e *InUseError) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = "process " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("store %s is in use by %s: stop that toolgate, or give this one a store of its own (toolgate.store)", e.Path, who)
}

// fileLock is a lock that the system takes back when its process ends,
// however it ends.
type fileLock struct {
	f *os.File
}

// acquire takes the lock of the store at path and writes our process id into
// it, or returns an [*InUseError]. It never waits.
func acquire(path string) (*fileLock, error) {
	f, err := os.OpenFile(path+lockSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock store %s: %w", path, err)
	}
	switch err := tryLock(f); {
	case errors.Is(err, errLocked):
		holder := readPID(f)
		f.Close()
		return nil, &InUseError{Path: path, PID: holder}
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("lock store %s: %w: put the store on a local file system", path, err)
	}
	l := &fileLock{f: f}
	if err := l.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("lock store %s: %w", path, err), l.release())
	}
	return l, nil
}

// sign replaces the content of the lock file by our process id.
func (l *fileLock) sign() error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// release gives the lock back. The process id goes first, so that a lock file
// never names a process that does not hold it while this one still could.
func (l *fileLock) release() error {
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
