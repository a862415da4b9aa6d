package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// ErrUnreached is returned while a store that was opened with [Options.Await] has not
// been able to connect to its server.
var ErrUnreached = errors.New("the store has not been reached since the start")

const (
	// The pause between attempts to connect doubles from the first to the last of
	// these.
	reconnectMin = 100 * time.Millisecond
	reconnectMax = 2 * time.Second
)

// connectError is why a store has not connected yet. The zero value means that it has.
type connectError struct{ reason atomic.Pointer[error] }

// err returns the error while the store has not connected, then nil.
func (a *connectError) err() error {
	reason := a.reason.Load()
	if reason == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnreached, *reason)
}

// connectLater connects a store whose server was unreachable at the start. It retries
// until ctx ends or the store is closed, and then returns false.
func (s *Store) connectLater(ctx context.Context) bool {
	told := ""
	for pause := reconnectMin; ; pause = min(2*pause, reconnectMax) {
		last := s.absent.reason.Load()
		if last == nil {
			return true
		}
		// Log the same error only once, even when its address differs.
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
