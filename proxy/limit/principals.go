package limit

import (
	"slices"
	"sync"
)

// Principals bounds how many calls of one principal run at once, at all servers
// together. A nil Principals, and one without a bound, does not. It is safe for
// concurrent use.
type Principals struct {
	mu       sync.Mutex
	most     int
	starting map[string]int            // calls of each principal that wait for a server to start
	running  map[string]int            // of each principal; below 0 while one that has ended is still to go on
	waiting  map[string][]*Concurrency // where calls of a principal wait for others of it, first come first
}

func NewPrincipals() *Principals {
	return &Principals{starting: make(map[string]int), running: make(map[string]int), waiting: make(map[string][]*Concurrency)}
}

// Resize sets the bound, zero for none. Calls that wait for room look again.
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
		waiting.poke()
	}
}

// enter counts one more call of a principal. Where that is one too many it notes
// that calls of it wait at s, which is told by leave.
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

// add counts a principal's running calls; mu is held.
func (c *Principals) add(principal string, n int) {
	if c.running[principal] += n; c.running[principal] == 0 {
		delete(c.running, principal)
	}
}

// resume counts a call that goes on, which so may be one too many.
func (c *Principals) resume(principal string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(principal, +1)
}

// leave counts one call less and returns where calls of the principal wait for
// that.
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

// full tells whether a principal has as many calls running as it may, and how
// many that is.
func (c *Principals) full(principal string) (most int, full bool) {
	if c == nil {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most, c.most > 0 && c.running[principal] >= c.most
}
