package proxy

import "github.com/toolgate/toolgate/proxy/refusal"

// This file bounds the calls that wait until it is known what their server lists to
// their callers, most of them while it starts. The gate has not been asked about them
// yet, and they hold no place among those that run.

// expectant are the calls that wait so at one server.
type expectant struct {
	n  int
	of map[string]int // of each principal
}

// expect takes a place to wait for what the server lists to a principal; leave gives
// it back. There are as many as calls may run and queue at the server, which is where
// they go on to. Of these a principal has at most as many as are free besides, so
// that those of one, or of a few, do not keep the others out. At all servers together
// a principal waits with no more calls than it may have running. The error is a
// [*refusal.Error].
func (s *slots) expect(principal string) (leave func(), err error) {
	if err := s.callers.expect(principal); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	places := s.size
	if !s.held.NoQueue {
		places += s.queue
	}
	e := &s.expects
	if places-e.n <= e.of[principal] {
		s.callers.expected(principal)
		return nil, refusal.StartBusy()
	}
	if e.of == nil {
		e.of = make(map[string]int)
	}
	e.n++
	e.of[principal]++
	return func() { s.expected(principal) }, nil
}

// expected gives a place of expect back.
func (s *slots) expected(principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &s.expects
	e.n--
	if e.of[principal]--; e.of[principal] == 0 {
		delete(e.of, principal)
	}
	s.callers.expected(principal)
}

// expect counts one more call of a principal that waits for a server to start; the
// error is its [*refusal.Error] where that is one too many.
func (c *callerSlots) expect(principal string) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most > 0 && c.expects[principal] >= c.most {
		return refusal.CallerWaits(c.most)
	}
	c.expects[principal]++
	return nil
}

// expected counts one less.
func (c *callerSlots) expected(principal string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expects[principal]--; c.expects[principal] == 0 {
		delete(c.expects, principal)
	}
}
