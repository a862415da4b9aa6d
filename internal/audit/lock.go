package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/toolgate/toolgate/internal/filelock"
)

// InUseError means that another process writes the log: two writers would break each
// other's chain. Readers need no lock.
type InUseError struct{ filelock.HeldError }

// Error implements error.
func (e *InUseError) Error() string {
	return fmt.Sprintf("audit log %s: stop that toolgate, or give this one a log of its own (toolgate.audit.path)", &e.HeldError)
}

// Free returns an [*InUseError] when a process writes the log at path. It changes
// nothing.
func Free(path string) error { return inUse(filelock.Free(resolved(path))) }

// inUse adds the name of the log to an error about its lock.
func inUse(err error) error {
	if held, ok := errors.AsType[*filelock.HeldError](err); ok {
		return &InUseError{*held}
	}
	if err != nil {
		return fmt.Errorf("lock it: %w", err)
	}
	return nil
}

// lock takes the lock of the log, a file beside it. If the folder is not writable there
// is no lock; that is logged and accepted.
func (l *Log) lock() error {
	held, err := filelock.Take(l.path)
	if errors.Is(err, fs.ErrPermission) {
		l.log.Warn("the audit log has no lock: nothing keeps another gateway from writing it too; make its folder writable", slog.Any("error", err))
		return nil
	}
	l.fileLock = held
	return inUse(err)
}

// unlock releases the lock.
func (l *Log) unlock() error {
	if l.fileLock == nil {
		return nil
	}
	err := l.fileLock.Close()
	l.fileLock = nil
	return err
}
