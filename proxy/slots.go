package proxy

import (
	"context"
	"sync"
	"time"

	"github.com/toolgate/toolgate/proxy/refusal"
)

const (
	defaultConcurrency = 32
	queuePerSlot       = 8
	// queueTime bounds the wait for a place.
	queueTime = 30 * time.Second
)

// slots bounds how many calls run at one backend, and with callers how many of
// one principal run at all of them. Waiting calls are served round robin over the
// principals, so that none of them waits behind all the calls of another, and one
// that has as many running as it may keeps nobody else waiting.
type slots struct {
	callers *callerSlots // its lock is taken after mu, and never before

	mu      sync.Mutex
	full    int      // what is configured
	held    Throttle // how far the gateway holds back
	size    int      // full, as far as it is not held back
	queue   int
	running int
	waiting int
	expects expectant
	order   []string           // principals that wait, next first
	calls   map[string][]*turn // of each, oldest first
}

// turn is one waiting call.
type turn struct {
	ready   chan struct{} // closed when it may run, or is refused
	refused bool          // it had to make room; set before ready is closed
}

func newSlots(size, queue int, callers *callerSlots) *slots {
	s := &slots{calls: make(map[string][]*turn), callers: callers}
	s.resize(size, queue)
	return s
}

// resize sets the bounds; running and waiting calls go on.
func (s *slots) resize(size, queue int) {
	if size <= 0 {
		size = defaultConcurrency
	}
	if queue <= 0 {
		queue = queuePerSlot * size
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full, s.queue = size, queue
	s.fit()
}

// throttle sets how far the gateway holds back; running calls go on.
func (s *slots) throttle(t Throttle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == t {
		return
	}
	s.held = t
	for t.NoQueue && len(s.order) > 0 {
		waiting := s.calls[s.order[0]]
		last := waiting[len(waiting)-1]
		s.forget(s.order[0], last)
		last.refused = true
		close(last.ready)
	}
	s.fit()
}

// fit makes the bounds those in force; mu is held.
func (s *slots) fit() {
	s.size = s.full
	if s.held.Halve {
		s.size = max(1, s.full/2)
	}
	s.next()
}

// resume takes a place for a call that gave its own back for a while. It does
// not wait: the call runs already, and so may be one beyond the bound.
func (s *slots) resume(principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	s.callers.resume(principal)
}

// take waits for a place. It returns a refusal when the queue is full and the
// cause of the context when that ends first. The place is given back by give.
func (s *slots) take(ctx context.Context, server, principal string) error {
	s.mu.Lock()
	// With room, those who wait are those whose principal has as many as it may.
	if s.running < s.size && len(s.calls[principal]) == 0 && s.callers.enter(principal, s) {
		s.running++
		s.mu.Unlock()
		return nil
	}
	if s.held.NoQueue || s.waiting >= s.queue && !s.displace(principal) {
		s.mu.Unlock()
		return refusal.QueueFull(server)
	}
	mine := &turn{ready: make(chan struct{})}
	if len(s.calls[principal]) == 0 {
		s.order = append(s.order, principal)
	}
	s.calls[principal] = append(s.calls[principal], mine)
	s.waiting++
	s.mu.Unlock()
	timer := time.NewTimer(queueTime)
	defer timer.Stop()
	var why error
	select {
	case <-mine.ready:
	case <-timer.C:
		why = s.late(server, principal)
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case why != nil && s.forget(principal, mine):
		return why
	case mine.refused:
		return refusal.QueueFull(server)
	}
	return nil // or the turn came at the same moment
}

// late is the refusal of a call that has waited for too long: for its server, or
// for the other calls of its principal.
func (s *slots) late(server, principal string) *refusal.Error {
	if most, full := s.callers.full(principal); full {
		return refusal.CallerBusy(most)
	}
	return refusal.QueueFull(server)
}

// displace makes room in a full queue for a principal that has clearly fewer
// calls in it than another one: the other's newest is refused. mu is held.
func (s *slots) displace(principal string) bool {
	most := ""
	for p, calls := range s.calls {
		if n := len(calls); n > len(s.calls[most]) || n == len(s.calls[most]) && p < most {
			most = p
		}
	}
	if len(s.calls[most]) <= len(s.calls[principal])+1 {
		return false
	}
	last := s.calls[most][len(s.calls[most])-1]
	s.forget(most, last)
	last.refused = true
	close(last.ready)
	return true
}

// give returns the place of a call of a principal, which may be what another
// call of the same principal waits for, at whichever server.
func (s *slots) give(principal string) {
	s.mu.Lock()
	s.running--
	also := s.callers.leave(principal)
	s.next()
	s.mu.Unlock()
	for _, other := range also {
		other.poke()
	}
}

// poke looks again who may run.
func (s *slots) poke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next()
}

// next hands free places to those who wait, except to those whose principal has
// as many as it may; mu is held.
func (s *slots) next() {
	for skipped := 0; s.running < s.size && skipped < len(s.order); {
		principal := s.order[0]
		s.order = s.order[1:]
		if !s.callers.enter(principal, s) {
			s.order = append(s.order, principal)
			skipped++
			continue
		}
		skipped = 0
		calls := s.calls[principal]
		close(calls[0].ready)
		s.running++
		s.waiting--
		if len(calls) == 1 {
			delete(s.calls, principal)
			continue
		}
		s.calls[principal] = calls[1:]
		s.order = append(s.order, principal)
	}
}

// forget takes a waiting call out; false means that it does not wait any more.
func (s *slots) forget(principal string, gone *turn) bool {
	calls := s.calls[principal]
	for i, c := range calls {
		if c != gone {
			continue
		}
		s.waiting--
		if len(calls) == 1 {
			delete(s.calls, principal)
			for j, p := range s.order {
				if p == principal {
					s.order = append(s.order[:j:j], s.order[j+1:]...)
					break
				}
			}
			return true
		}
		s.calls[principal] = append(calls[:i:i], calls[i+1:]...)
		return true
	}
	return false
}
