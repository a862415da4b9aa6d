package budget

import (
	"sync"
	"time"
)

// Clock is a clock that never goes back: when the system's clock is set back, it
// goes on from where it was at the pace of the machine, until the other one has
// caught up. So a window that has begun is not begun again. The zero value is
// ready; its methods are safe for concurrent use.
type Clock struct {
	// System is asked for the time; nil is [time.Now]. Its readings should be
	// monotonic ones.
	System func() time.Time

	mu   sync.Mutex
	last time.Time // as given out, without monotonic reading
	at   time.Time // what System said then
}

// Now returns the time in UTC, to the millisecond.
func (c *Clock) Now() time.Time {
	system := time.Now
	if c.System != nil {
		system = c.System
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := system()
	next := now.UTC().Round(0)
	if on := c.last.Add(max(now.Sub(c.at), 0)); !c.at.IsZero() && next.Before(on) {
		next = on
	}
	c.last, c.at = next, now
	return next.Truncate(time.Millisecond)
}
