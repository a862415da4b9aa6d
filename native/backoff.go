package native

import (
	"context"
	"math/rand/v2"
	"time"
)

// How often a plugin that ends is started again.
const (
	firstPause  = 500 * time.Millisecond // doubling with each start that fails
	lastPause   = 30 * time.Second
	mostEnds    = 5 // within endsTime, before it is given up
	endsTime    = 5 * time.Minute
	steadyAfter = time.Minute // of running, the pauses begin anew
)

// ends counts how often a plugin has ended of late. It is for one goroutine.
type ends struct {
	at    []time.Time
	pause time.Duration
}

// add counts an end of a process that ran for a while. It returns how long to
// wait before the next start, and ok false when there have been too many.
func (e *ends) add(now time.Time, ran time.Duration) (pause time.Duration, ok bool) {
	for len(e.at) > 0 && now.Sub(e.at[0]) > endsTime {
		e.at = e.at[1:]
	}
	e.at = append(e.at, now)
	if len(e.at) >= mostEnds {
		return 0, false
	}
	if e.pause == 0 || ran >= steadyAfter {
		e.pause = firstPause
	}
	pause = e.pause - time.Duration(rand.Float64()*float64(e.pause)/2)
	e.pause = min(2*e.pause, lastPause)
	return pause, true
}

// pause waits, or returns false when the context has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
