package records

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
)

const (
	// maxWaiting bounds those who wait for their turn, turnTime how long one waits.
	maxWaiting = 16
	turnTime   = 20 * time.Second
)

// turns lets one go at a time, while some wait. They are safe for concurrent use. Make them
// with newTurns.
type turns struct {
	free    chan struct{} // capacity 1: holds a value while nobody goes
	waiting *atomic.Int32
}

func newTurns() turns {
	t := turns{free: make(chan struct{}, 1), waiting: new(atomic.Int32)}
	t.free <- struct{}{}
	return t
}

// take waits for a turn, and returns what ends it. The error is [admin.ErrAuditBusy] where too
// many wait or it takes too long, and that of the context.
func (t turns) take(ctx context.Context) (done func(), err error) {
	done = func() { t.free <- struct{}{} }
	select {
	case <-t.free:
		return done, nil
	default:
	}
	if t.waiting.Add(1) > maxWaiting {
		t.waiting.Add(-1)
		return nil, admin.ErrAuditBusy
	}
	defer t.waiting.Add(-1)
	timer := time.NewTimer(turnTime)
	defer timer.Stop()
	select {
	case <-t.free:
		return done, nil
	case <-timer.C:
		return nil, admin.ErrAuditBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
