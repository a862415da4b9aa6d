package native

import (
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
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
	at   []time.Time
	wait backoff.Backoff
}

// newEnds returns an account without an end.
func newEnds() ends { return ends{wait: backoff.Backoff{Base: firstPause, Max: lastPause}} }

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
	if ran >= steadyAfter {
		e.wait.Reset()
	}
	return e.wait.Next(), true
}
