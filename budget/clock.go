package budget

import (
	"sync"
	"time"
)

// Clock is a clock that never goes back. When the system's clock is set back, it
// continues with elapsed time until the system's clock has caught up, so that no window
// begins twice. The zero value is ready; its methods are safe for concurrent use.
type Clock struct {
	// System returns the time of the system's clock, and the time since some moment of
	// the process, which cannot be set. nil stands for the system.
	System func() (shown time.Time, elapsed time.Duration)

	mu   sync.Mutex
	last time.Time     // the time returned last
	at   time.Duration // elapsed at that time
}

// begun is the start of elapsed time.
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
