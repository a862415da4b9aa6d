package proxy

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// RunningCall is a call that has passed the gate and has not ended.
type RunningCall struct {
	// Request is the question to the gate, without the arguments.
	gate.Request
	// Listed is the definition of what is called, as its server listed it; nil where it
	// is not listed.
	Listed []byte
}

// inFlight are the calls under way. The zero value has none.
type inFlight struct {
	mu        sync.Mutex
	all       map[*RunningCall]context.CancelCauseFunc
	unwritten int           // requests that may be calls and whose response is not written yet
	empty     chan struct{} // closed when the last call has ended and none may begin; nil while calls may begin
}

// trackResponse registers a request until its response is written: for its client a
// call is not over before. Requests that come while the gateway shuts down are not
// waited for, and neither are streams that stay open.
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

// begin registers a call until done is called. The context of the call ends then, or
// when the call is cancelled. A call is registered before the mode in force is checked,
// so that either this check or CancelCalls sees a change of the mode. No call begins
// while the gateway shuts down.
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
			c.suspended.cancel(why) // it was cancelled between its rounds, before it waited for the next
		}
		cancel(context.Canceled)
	}, nil
}

// note registers a call, unless none may begin.
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

// signalIfEmpty wakes shutdown when no call is left and every response is written; mu
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

// close lets no call begin any more. The returned channel is closed when the last call
// has ended and its response is written.
func (f *inFlight) close() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.empty == nil {
		f.empty = make(chan struct{})
	}
	f.signalIfEmpty()
	return f.empty
}

// CancelCalls cancels the calls under way for which which returns a refusal, and
// answers them with it. It returns their number. Calls that wait for input from their
// clients are included. which is called without any lock that a call needs to begin.
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

// count returns how many calls are registered.
func (f *inFlight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all)
}

// list returns the registered calls with their cancel functions.
func (f *inFlight) list() map[*RunningCall]context.CancelCauseFunc {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.all)
}

// waiting returns the calls that a server still works on while their client is asked.
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

// Throttle sets from now on how much load the gateway accepts. Calls under way go on.
func (g *Gateway) Throttle(t limit.Throttle) {
	g.publisher.mu.Lock() // so that no server is added meanwhile
	defer g.publisher.mu.Unlock()
	g.throttle.Store(&t)
	for _, s := range g.snapshot.Load().catalog.servers {
		s.permits.Throttle(t)
	}
}

// cutTimeout bounds the wait for cancelled calls to answer their clients.
const cutTimeout = 2 * time.Second

// Drain stops new calls and waits until those under way have ended. When ctx ends it
// cancels the rest, with a response that says so, and returns their number. Calls that
// wait for input from their client are not waited for. Drain may be called once, before
// the context of [Gateway.Run] ends.
func (g *Gateway) Drain(ctx context.Context) (cut int) {
	empty := g.inFlight.close()
	select {
	case <-empty:
		return 0
	case <-ctx.Done():
	}
	cut = g.CancelCalls(func(*RunningCall) *refusal.Error { return refusal.ShutDown })
	timer := time.NewTimer(cutTimeout)
	defer timer.Stop()
	select {
	case <-empty:
	case <-timer.C:
	}
	return cut
}
