package cancel

import (
	"cmp"
	"context"
	"time"
)

// timed is a Context that ends at a time besides.
type timed struct {
	Context
	by    time.Time
	timer *time.Timer // nil where it began late
	cause error
}

// Deadline implements [context.Context].
func (t *timed) Deadline() (by time.Time, ok bool) { return t.by, true }

// late ends the context at its time.
func (t *timed) late() { t.end(context.DeadlineExceeded, cmp.Or(t.cause, context.DeadlineExceeded)) }

func (t *timed) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
	t.Cancel(nil)
}

// WithTimeoutCause is that of the library, in less memory.
func WithTimeoutCause(parent context.Context, timeout time.Duration, cause error) (context.Context, context.CancelFunc) {
	by := time.Now().Add(timeout)
	if before, ok := parent.Deadline(); ok && before.Before(by) {
		c := New(parent)
		return c, func() { c.Cancel(nil) }
	}
	t := &timed{by: by, cause: cause}
	t.Begin(parent)
	if timeout <= 0 {
		t.late()
	} else {
		t.timer = time.AfterFunc(timeout, t.late)
	}
	return t, t.stop
}
