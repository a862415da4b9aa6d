package store

import (
	"errors"
	"fmt"
	"io"

	"github.com/toolgate/toolgate/internal/filelock"
)

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

// Free returns an [*InUseError] where a process has the store in the file at path
// open for writing, or has claimed it. It changes nothing.
func Free(path string) error {
	path, err := resolve(path)
	if err != nil {
		return fmt.Errorf("lock store %s: %w", path, err)
	}
	return inUse(path, filelock.Free(path))
}

// InUseError says that another process has the store open for writing.
type InUseError struct{ filelock.HeldError }

// Error implements error.
func (e *InUseError) Error() string {
	return fmt.Sprintf("store %s: stop that toolgate, or give this one a store of its own (toolgate.store)", &e.HeldError)
}

// acquire takes the lock of the store at path, or returns an [*InUseError]. It
// never waits.
func acquire(path string) (*filelock.Lock, error) {
	l, err := filelock.Take(path)
	return l, inUse(path, err)
}

// inUse names the store at path where its lock is held.
func inUse(path string, err error) error {
	if held, ok := errors.AsType[*filelock.HeldError](err); ok {
		return &InUseError{*held}
	}
	if err != nil {
		return fmt.Errorf("lock store %s: %w", path, err)
	}
	return nil
}
