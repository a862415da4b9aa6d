package limit

import "github.com/toolgate/toolgate/proxy/refusal"

// startup are the calls that wait until it is known what one server lists to their
// callers, most of them while it starts. The gate has not been asked about them yet,
// and they hold no place among those that run.
type startup struct {
	n  int
	of map[string]int // of each principal
}

// Await takes a place to wait for what the server lists to a principal; leave gives
// it back. There are as many as calls may run and queue at the server, which is where
// they go on to. Of these a principal has at most as many as are free besides, so
// that those of one, or of a few, do not keep the others out. At all servers together
// a principal waits with no more calls than it may have running. The error is a
// [*refusal.Error].
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
		s.principals.awaited(principal)
		return nil, refusal.StartBusy()
	}
	if e.of == nil {
		e.of = make(map[string]int)
	}
	e.n++
	e.of[principal]++
	return func() { s.awaited(principal) }, nil
}

// awaited gives a place of Await back.
func (s *Concurrency) awaited(principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &s.starting
	e.n--
	if e.of[principal]--; e.of[principal] == 0 {
		delete(e.of, principal)
	}
	s.principals.awaited(principal)
}

// await counts one more call of a principal that waits for a server to start; the
// error is its [*refusal.Error] where that is one too many.
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

// awaited counts one less.
func (c *Principals) awaited(principal string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.starting[principal]--; c.starting[principal] == 0 {
		delete(c.starting, principal)
	}
}
