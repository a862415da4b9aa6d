package native

import (
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
)

// How often a plugin is restarted.
const (
	firstPause  = 500 * time.Millisecond // doubled after each failed start
	lastPause   = 30 * time.Second
	mostEnds    = 5 // within endsTime; one more and the plugin has failed
	endsTime    = 5 * time.Minute
	steadyAfter = time.Minute // a process that ran this long resets the pauses
)

// restarts counts how often a plugin has ended recently. It is for one goroutine.
type restarts struct {
	at   []time.Time
	wait backoff.Backoff
}

// newRestarts returns a count of zero.
func newRestarts() restarts { return restarts{wait: backoff.Backoff{Base: firstPause, Max: lastPause}} }

// next counts the end of a process that ran for a time. It returns how long to wait
// before the next start, and ok false when the plugin has ended too often.
func (e *restarts) next(now time.Time, ran time.Duration) (pause time.Duration, ok bool) {
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
