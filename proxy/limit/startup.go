package limit

import "github.com/toolgate/toolgate/proxy/refusal"

// startup are the calls that wait until their caller's lists of one server are known,
// mostly while it starts. The gate has not decided on them yet, and they hold no
// permit.
type startup struct {
	n  int
	of map[string]int // of each principal
}

// Await admits a call that waits for a principal's lists of the server; leave must be
// called after the wait. As many calls may wait as may run and queue at the server,
// where they continue. One principal may take at most as many places as remain free, so
// that it does not keep others out. At all servers together a principal may wait with
// as many calls as it may have running. The error is a [*refusal.Error].
func (s *Concurrency) Await(principal string) (leave func(), err error) {
	if err := s.principals.await(principal); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	places := s.size
	if !s.held.NoQueue {
		places += s.queue
	}
	e := &s.starting
	if places-e.n <= e.of[principal] {
		s.principals.doneWaiting(principal)
		return nil, refusal.StartBusy()
	}
	if e.of == nil {
		e.of = make(map[string]int)
	}
	e.n++
	e.of[principal]++
	return func() { s.doneWaiting(principal) }, nil
}

// doneWaiting ends a wait of Await.
func (s *Concurrency) doneWaiting(principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &s.starting
	e.n--
	if e.of[principal]--; e.of[principal] == 0 {
		delete(e.of, principal)
	}
	s.principals.doneWaiting(principal)
}

// await counts one more call of a principal that waits for a server to start. The error
// is the [*refusal.Error] of one too many.
func (c *Principals) await(principal string) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most > 0 && c.starting[principal] >= c.most {
		return refusal.CallerWaits(c.most)
	}
	c.starting[principal]++
	return nil
}

// doneWaiting counts one less.
func (c *Principals) doneWaiting(principal string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.starting[principal]--; c.starting[principal] == 0 {
		delete(c.starting, principal)
	}
}
