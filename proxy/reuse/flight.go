package reuse

import (
	"context"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Flight is a call that is under way for the first who made it. Others who make the
// same call wait for its result instead of asking the server at the same time.
type Flight struct {
	r    *Results
	key  Key
	done chan struct{} // closed by Land

	found Found // valid once done is closed
	ok    bool  // found may be reused
}

// Join returns the flight under a key. lead is true for the first, who makes the call
// and must call Land; all others may Wait. Where a result is held already, the flight
// has landed with it.
func (r *Results) Join(k Key, now time.Time) (f *Flight, lead bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found, ok := r.find(k, now); ok {
		f = &Flight{r: r, key: k, done: make(chan struct{}), found: found, ok: true}
		close(f.done)
		return f, false
	}
	if f = r.flights[k]; f != nil {
		return f, false
	}
	f = &Flight{r: r, key: k, done: make(chan struct{})}
	r.flights[k] = f
	return f, true
}

// Land ends a flight, once. An answer that may be reused is held for ttl for a
// principal; nil holds nothing, and whoever waits makes the call alone.
func (f *Flight) Land(answer *mcp.Answer, principal string, now time.Time, ttl time.Duration) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	defer close(f.done)
	current := f.r.flights[f.key] == f
	if current {
		delete(f.r.flights, f.key)
	}
	if answer == nil {
		return
	}
	f.found, f.ok = Found{*answer, now}, true
	if current { // else the results were cleared meanwhile
		f.r.hold(f.key, principal, *answer, now, ttl)
	}
}

// Wait waits for the result of a flight. ok is false where it has none to reuse. The
// error is the cause of the ended context.
func (f *Flight) Wait(ctx context.Context) (found Found, ok bool, err error) {
	select {
	case <-f.done:
		return f.found, f.ok, nil
	case <-ctx.Done():
		return Found{}, false, context.Cause(ctx)
	}
}
