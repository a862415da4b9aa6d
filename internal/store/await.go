package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// ErrAway is returned for everything asked of a store that was opened with
// [Options.Await] and whose server has not been reached yet.
var ErrAway = errors.New("the store has not been reached since the start")

const (
	// A server that is away is tried again after a pause that doubles from the
	// first to the last of these.
	reachAgainMin = 100 * time.Millisecond
	reachAgainMax = 2 * time.Second
)

// absence is why a store has not been reached yet. The zero value is of one that
// has.
type absence struct{ reason atomic.Pointer[error] }

// err is what is answered while the store has not been reached; nil once it has.
func (a *absence) err() error {
	reason := a.reason.Load()
	if reason == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrAway, *reason)
}

// reach opens a store that was not there at its start, however often that takes,
// and reports false when ctx ended, or the store was closed, before.
func (s *Store) reach(ctx context.Context) bool {
	told := ""
	for pause := reachAgainMin; ; pause = min(2*pause, reachAgainMax) {
		last := s.absent.reason.Load()
		if last == nil {
			return true
		}
		// The same in other words, such as with another address, is said once.
		if text := (*last).Error(); text != told {
			told = text
			s.log.Error("the store cannot be reached; what needs it is refused until it can", slog.Any("error", *last))
		}
		select {
		case <-ctx.Done():
			return false
		case <-s.writer.closing:
			return false
		case <-time.After(pause):
		}
		err := s.begin(ctx, false)
		switch {
		case err == nil:
			s.absent.reason.Store(nil)
			s.log.Info("the store is reached", slog.String("store", s.path))
			s.watchers.signal()
		case ctx.Err() == nil && !s.writer.isClosed():
			s.absent.reason.Store(&err)
		}
	}
}
