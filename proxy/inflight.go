package proxy

import (
	"context"
	"maps"
	"sync"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// RunningCall is a call that has passed the gate and has not ended.
type RunningCall struct {
	// Request is what the gate was asked, without the arguments.
	gate.Request
	// Listed is what is called as its server listed it; nil where it does not
	// list it.
	Listed []byte
}

// inFlight are the calls under way. The zero value has none.
type inFlight struct {
	mu        sync.Mutex
	all       map[*RunningCall]context.CancelCauseFunc
	unwritten int           // requests whose answer is not written yet, of those that may be calls
	empty     chan struct{} // closed when the last one has ended and none may begin; nil while they may
}

// trackResponse notes a request of which the answer is written before the returned function
// is called: a call that has ended is not over for its client before. What comes when
// the gateway is about to end is not waited for, and neither is what stays open.
func (f *inFlight) trackResponse(method string) (written func()) {
	if method == mcp.MethodListen {
		return func() {}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.empty != nil {
		return func() {}
	}
	f.unwritten++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.unwritten--
		f.signalIfEmpty()
	}
}

// begin notes a call until it is done. Its context ends with it, or before
// where it is cancelled. A call is noted before it is held against the mode in
// force, so that each is seen by a change of that or sees it. None begins once the
// gateway is about to end.
func (f *inFlight) begin(c *call) (context.Context, func(), error) {
	running := &RunningCall{Request: c.route.question(gate.Call, c.x.Identity, c.x.Scope), Listed: c.route.item}
	c.running = running
	ctx, cancel := context.WithCancelCause(c.ctx)
	if !f.note(running, cancel) {
		cancel(refusal.Ending)
		return nil, nil, refusal.Ending
	}
	return ctx, func() {
		f.forget(running)
		if why := context.Cause(ctx); why != nil && c.waits && c.suspended != nil {
			c.suspended.cancel(why) // it was cancelled when its round was over and it did not wait for the next yet
		}
		cancel(context.Canceled)
	}, nil
}

// note takes a call in, unless none may begin.
func (f *inFlight) note(call *RunningCall, cancel context.CancelCauseFunc) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.empty != nil {
		return false
	}
	if f.all == nil {
		f.all = make(map[*RunningCall]context.CancelCauseFunc)
	}
	f.all[call] = cancel
	return true
}

func (f *inFlight) forget(call *RunningCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, call)
	f.signalIfEmpty()
}

// signalIfEmpty tells whoever waits when there is no call left, and no answer to be written; mu
// is held.
func (f *inFlight) signalIfEmpty() {
	if f.empty == nil || len(f.all) > 0 || f.unwritten > 0 {
		return
	}
	select {
	case <-f.empty:
	default:
		close(f.empty)
	}
}

// close lets no call begin any more, and returns what is closed when the last one
// has ended and its answer is written.
func (f *inFlight) close() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.empty == nil {
		f.empty = make(chan struct{})
	}
	f.signalIfEmpty()
	return f.empty
}

// CancelCalls ends the calls under way for which which returns a refusal, with
// that as their answer, and returns how many they were. Calls that wait for
// their client's answers are among them. which is called without a lock that a
// call needs to begin.
func (g *Gateway) CancelCalls(which func(*RunningCall) *refusal.Error) int {
	n := 0
	for call, cancel := range g.inFlight.list() {
		if why := which(call); why != nil {
			cancel(why)
			n++
		}
	}
	for call, p := range g.rounds.waiting() {
		if why := which(call); why != nil {
			p.cancel(why)
			n++
		}
	}
	return n
}

// list returns the calls that are noted now, with what ends them.
func (f *inFlight) list() map[*RunningCall]context.CancelCauseFunc {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.all)
}

// waiting returns the calls that a server still works on while their client is
// asked.
func (r *roundTrips) waiting() map[*RunningCall]*suspended {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[*RunningCall]*suspended)
	for _, open := range r.open {
		if open.suspended != nil && open.running != nil {
			all[open.running] = open.suspended
		}
	}
	return all
}
