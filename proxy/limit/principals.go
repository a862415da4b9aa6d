package limit

import (
	"slices"
	"sync"
)

// Principals bounds the running calls of one principal at all servers together. A nil
// Principals, and one without a limit, allows any number. It is safe for concurrent
// use.
type Principals struct {
	mu       sync.Mutex
	most     int
	starting map[string]int            // calls that wait for a server to start, by principal
	running  map[string]int            // by principal; negative while a call that has ended is still to resume
	waiting  map[string][]*Concurrency // where calls of a principal wait for its other calls, first come first
}

func NewPrincipals() *Principals {
	return &Principals{starting: make(map[string]int), running: make(map[string]int), waiting: make(map[string][]*Concurrency)}
}

// Resize sets the limit, zero for none. Waiting calls are checked again.
func (c *Principals) Resize(most int) {
	c.mu.Lock()
	c.most = most
	var also []*Concurrency
	for principal, at := range c.waiting {
		also = append(also, at...)
		delete(c.waiting, principal)
	}
	c.mu.Unlock()
	for _, waiting := range also {
		waiting.recheck()
	}
}

// enter counts one more running call of a principal. At the limit it returns false and
// remembers that calls wait at s, for leave.
func (c *Principals) enter(principal string, s *Concurrency) bool {
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

// add changes a principal's number of running calls; mu is held.
func (c *Principals) add(principal string, n int) {
	if c.running[principal] += n; c.running[principal] == 0 {
		delete(c.running, principal)
	}
}

// resume counts a call that runs again. It may exceed the limit.
func (c *Principals) resume(principal string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(principal, +1)
}

// leave counts one call less and returns where calls of the principal wait for that.
func (c *Principals) leave(principal string) []*Concurrency {
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

// full reports whether a principal is at its limit, and the limit.
func (c *Principals) full(principal string) (most int, full bool) {
	if c == nil {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most, c.most > 0 && c.running[principal] >= c.most
}
