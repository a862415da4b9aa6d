// Package inflight knows the calls under way, so that they can be cancelled, and waited for
// when the gateway ends.
package inflight

import (
	"context"
	"maps"
	"sync"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Call is a call that has passed the gate and has not ended.
type Call struct {
	// Request is the question to the gate, without the arguments.
	gate.Request
	// Listed is the definition of what is called, as its server listed it; nil where it
	// is not listed.
	Listed []byte
}

// Calls are the calls under way. The zero value has none. It is safe for concurrent use.
type Calls struct {
	mu        sync.Mutex
	all       map[*Call]context.CancelCauseFunc
	unwritten int           // requests that may be calls and whose response is not written yet
	empty     chan struct{} // closed when the last call has ended and none may begin; nil while calls may begin
}

// Response registers a request until its response is written: for its client a call is not
// over before. Requests that come while the gateway shuts down are not waited for, and
// neither are streams that stay open.
func (c *Calls) Response(method string) (written func()) {
	if method == mcp.MethodListen {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.empty != nil {
		return func() {}
	}
	c.unwritten++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unwritten--
		c.signalIfEmpty()
	}
}

// Add registers a call with what cancels it. It reports false once no call may begin. One that
// goes on with what was begun before may begin for as long as others are under way.
func (c *Calls) Add(call *Call, goesOn bool, cancel context.CancelCauseFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.empty != nil && !goesOn {
		return false
	}
	if c.empty != nil {
		select {
		case <-c.empty:
			return false
		default:
		}
	}
	if c.all == nil {
		c.all = make(map[*Call]context.CancelCauseFunc)
	}
	c.all[call] = cancel
	return true
}

// Remove takes out a call that has ended.
func (c *Calls) Remove(call *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, call)
	c.signalIfEmpty()
}

// signalIfEmpty wakes shutdown when no call is left and every response is written; mu
// is held.
func (c *Calls) signalIfEmpty() {
	if c.empty == nil || len(c.all) > 0 || c.unwritten > 0 {
		return
	}
	select {
	case <-c.empty:
	default:
		close(c.empty)
	}
}

// Close lets no call begin any more. The returned channel is closed when the last call
// has ended and its response is written.
func (c *Calls) Close() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.empty == nil {
		c.empty = make(chan struct{})
	}
	c.signalIfEmpty()
	return c.empty
}

// Closed reports whether no call may begin any more.
func (c *Calls) Closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.empty != nil
}

// Count returns how many calls are registered.
func (c *Calls) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// List returns the registered calls with their cancel functions.
func (c *Calls) List() map[*Call]context.CancelCauseFunc {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.all)
}
