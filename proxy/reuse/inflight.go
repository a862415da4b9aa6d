package reuse

import (
	"context"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// InFlight is a call in flight for the first who made it. Others who make the same
// call wait for its result instead of asking the server at the same time.
type InFlight struct {
	r    *Results
	key  Key
	done chan struct{} // closed by End

	found Found // valid once done is closed
	ok    bool  // found may be reused
}

// Join returns the call in flight under a key. lead is true for the first, who makes the
// call and must call End; all others may Wait. Where a result is held already, the call
// has ended with it.
func (r *Results) Join(k Key, now time.Time) (f *InFlight, lead bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found, ok := r.find(k, now); ok {
		f = &InFlight{r: r, key: k, done: make(chan struct{}), found: found, ok: true}
		close(f.done)
		return f, false
	}
	if f = r.inFlight[k]; f != nil {
		return f, false
	}
	f = &InFlight{r: r, key: k, done: make(chan struct{})}
	r.inFlight[k] = f
	return f, true
}

// End ends the call, once. An answer that may be reused is held for ttl for a
// principal; nil holds nothing, and whoever waits makes the call alone.
func (f *InFlight) End(answer *mcp.Answer, principal string, now time.Time, ttl time.Duration) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	defer close(f.done)
	current := f.r.inFlight[f.key] == f
	if current {
		delete(f.r.inFlight, f.key)
	}
	if answer == nil {
		return
	}
	f.found, f.ok = Found{*answer, now}, true
	if current { // else the results were cleared meanwhile
		f.r.hold(f.key, principal, *answer, now, ttl)
	}
}

// Wait waits for the result of the call. ok is false where it has none to reuse. The
// error is the cause of the ended context.
func (f *InFlight) Wait(ctx context.Context) (found Found, ok bool, err error) {
	select {
	case <-f.done:
		return f.found, f.ok, nil
	case <-ctx.Done():
		return Found{}, false, context.Cause(ctx)
	}
}
