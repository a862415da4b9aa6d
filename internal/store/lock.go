package store

import (
	"errors"
	"fmt"
	"io"

	"github.com/toolgate/toolgate/internal/filelock"
)

// Claim takes the lock of a store in a file at path. It is for a process whose store is
// elsewhere but which must be the only one of its folder. The folder must exist. It
// returns an [*InUseError] when another process has the lock, and never waits. The lock
// ends with Close, or with the process.
func Claim(path string) (io.Closer, error) {
	l, err := acquire(path)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Free returns an [*InUseError] when a process has opened the store at path for
// writing, or has claimed it. It changes nothing.
func Free(path string) error {
	path, err := resolve(path)
	if err != nil {
		return fmt.Errorf("lock store %s: %w", path, err)
	}
	return inUse(path, filelock.Free(path))
}

// InUseError means that another process has opened the store for writing.
type InUseError struct{ filelock.HeldError }

// Error implements error.
func (e *InUseError) Error() string {
	return fmt.Sprintf("store %s; stop that toolgate, or give this one a store of its own (toolgate.store)", &e.HeldError)
}

// acquire takes the lock of the store at path, or returns an [*InUseError]. It never
// waits.
func acquire(path string) (*filelock.Lock, error) {
	l, err := filelock.Take(path)
	return l, inUse(path, err)
}

// inUse adds the path of the store to an error about its lock.
func inUse(path string, err error) error {
	if held, ok := errors.AsType[*filelock.HeldError](err); ok {
		return &InUseError{*held}
	}
	if err != nil {
		return fmt.Errorf("lock store %s: %w", path, err)
	}
	return nil
}
