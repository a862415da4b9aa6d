package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/toolgate/toolgate/internal/filelock"
)

// InUseError says that another process writes the log: two would spoil each
// other's chain. Who only reads needs no lock.
type InUseError struct{ filelock.HeldError }

// Error implements error.
func (e *InUseError) Error() string {
	return fmt.Sprintf("audit log %s: stop that toolgate, or give this one a log of its own (toolgate.audit.path)", &e.HeldError)
}

// Free returns an [*InUseError] where a process writes the log at path. It changes
// nothing.
func Free(path string) error { return inUse(filelock.Free(resolved(path))) }

// inUse names the log where a lock is held.
func inUse(err error) error {
	if held, ok := errors.AsType[*filelock.HeldError](err); ok {
		return &InUseError{*held}
	}
	if err != nil {
		return fmt.Errorf("lock it: %w", err)
	}
	return nil
}

// lock takes the lock of the log. It is a file beside the log: where the log can be
// written and its folder cannot, there is none, which is said and not refused.
func (l *Log) lock() error {
	held, err := filelock.Take(l.path)
	if errors.Is(err, fs.ErrPermission) {
		l.log.Warn("the audit log has no lock: nothing keeps another gateway from writing it too; make its folder writable", slog.Any("error", err))
		return nil
	}
	l.held = held
	return inUse(err)
}

// unlock gives the lock back.
func (l *Log) unlock() error {
	if l.held == nil {
		return nil
	}
	err := l.held.Close()
	l.held = nil
	return err
}
