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
type InUseError struct {
	Path string // the log
	PID  int    // who writes it; 0 when it did not say
}

// Error implements error.
func (e *InUseError) Error() string {
	held := filelock.HeldError{Path: e.Path, PID: e.PID}
	return fmt.Sprintf("audit log %s is in use by %s: stop that toolgate, or give this one a log of its own (toolgate.audit.path)", e.Path, held.Holder())
}

// claim takes the lock of the log at path, where no link stands.
func claim(path string) (*filelock.Lock, error) {
	l, err := filelock.Take(path)
	if held, ok := errors.AsType[*filelock.HeldError](err); ok {
		return nil, &InUseError{Path: held.Path, PID: held.PID}
	}
	if err != nil {
		return nil, fmt.Errorf("lock it: %w", err)
	}
	return l, nil
}

// lock takes the lock of the log. It is a file beside the log: where the log can be
// written and its folder cannot, there is none, which is said and not refused.
func (l *Log) lock() error {
	held, err := claim(l.path)
	if errors.Is(err, fs.ErrPermission) {
		l.log.Warn("the audit log has no lock: nothing keeps another gateway from writing it too; make its folder writable", slog.Any("error", err))
		return nil
	}
	l.held = held
	return err
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
