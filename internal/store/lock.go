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

// InUseError says that another process has the store open for writing.
type InUseError struct {
	Path string // the store
	PID  int    // who holds it; 0 when it did not say
}

// Error implements error.
func (e *InUseError) Error() string {
	held := filelock.HeldError{Path: e.Path, PID: e.PID}
	return fmt.Sprintf("store %s is in use by %s: stop that toolgate, or give this one a store of its own (toolgate.store)", e.Path, held.Holder())
}

// acquire takes the lock of the store at path, or returns an [*InUseError]. It
// never waits.
func acquire(path string) (*filelock.Lock, error) {
	l, err := filelock.Take(path)
	if held, ok := errors.AsType[*filelock.HeldError](err); ok {
		return nil, &InUseError{Path: held.Path, PID: held.PID}
	}
	if err != nil {
		return nil, fmt.Errorf("lock store %s: %w", path, err)
	}
	return l, nil
}
