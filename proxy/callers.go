package proxy

import (
	"slices"
	"sync"
)

// callerSlots bounds how many calls of one principal run at once, at all servers
// together. A nil callerSlots, and one without a bound, does not.
type callerSlots struct {
	mu      sync.Mutex
	most    int
	expects map[string]int      // calls of each principal that wait for a server to start
	running map[string]int      // of each principal; below 0 while one that has ended is still to go on
	waiting map[string][]*slots // where calls of a principal wait for others of it, first come first
}

func newCallerSlots() *callerSlots {
	return &callerSlots{expects: make(map[string]int), running: make(map[string]int), waiting: make(map[string][]*slots)}
}

// resize sets the bound, zero for none, and returns who waits for room: they look
// again.
func (c *callerSlots) resize(most int) (also []*slots) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = most
	for principal, at := range c.waiting {
		also = append(also, at...)
		delete(c.waiting, principal)
	}
	return also
}

// enter counts one more call of a principal. Where that is one too many it notes
// that calls of it wait at s, which is told by leave.
func (c *callerSlots) enter(principal string, s *slots) bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most > 0 && c.running[principal] >= c.most {
		if at := c.waiting[principal]; !slices.Contains(at, s) {
			c.waiting[principal] = append(at, s)
		}
		return false
	}
	c.add(principal, +1)
	return true
}

// add counts a principal's running calls; mu is held.
func (c *callerSlots) add(principal string, n int) {
	if c.running[principal] += n; c.running[principal] == 0 {
		delete(c.running, principal)
	}
}

// resume counts a call that goes on, which so may be one too many.
func (c *callerSlots) resume(principal string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(principal, +1)
}

// leave counts one call less and returns where calls of the principal wait for
// that.
func (c *callerSlots) leave(principal string) []*slots {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(principal, -1)
	also := c.waiting[principal]
	delete(c.waiting, principal)
	return also
}

// full tells whether a principal has as many calls running as it may, and how
// many that is.
func (c *callerSlots) full(principal string) (most int, full bool) {
	if c == nil {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most, c.most > 0 && c.running[principal] >= c.most
}
