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
	// System returns what the system's clock shows, and the time since some
	// moment in the life of the process, which nobody can set. Nil asks the
	// system.
	System func() (shown time.Time, elapsed time.Duration)

	mu   sync.Mutex
	last time.Time     // as given out
	at   time.Duration // elapsed then
}

// begun is the moment from which time elapses.
var begun = time.Now()

func system() (shown time.Time, elapsed time.Duration) {
	now := time.Now()
	return now, now.Sub(begun)
}

// Now returns the time in UTC, to the millisecond.
func (c *Clock) Now() time.Time {
	ask := c.System
	if ask == nil {
		ask = system
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	shown, elapsed := ask()
	next := shown.UTC().Round(0)
	if on := c.last.Add(elapsed - c.at); !c.last.IsZero() && next.Before(on) {
		next = on
	}
	c.last, c.at = next, elapsed
	return next.Truncate(time.Millisecond)
}
