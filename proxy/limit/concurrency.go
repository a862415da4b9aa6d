package limit

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

// Throttle is how far the gateway holds back, beside what is configured. The
// zero Throttle does not.
type Throttle struct {
	// Halve lets half as many calls run at each server, and at least one.
	Halve bool
	// NoQueue refuses calls that would have to wait for a place at their server,
	// and those that wait.
	NoQueue bool
}

// Concurrency bounds how many calls run at one backend, and with [Principals] how
// many of one principal run at all of them. Waiting calls are served round robin over the
// principals, so that none of them waits behind all the calls of another, and one
// that has as many running as it may keeps nobody else waiting. Make one with
// [NewConcurrency]. It is safe for concurrent use.
type Concurrency struct {
	principals *Principals // its lock is taken after mu, and never before

	mu       sync.Mutex
	full     int      // what is configured
	held     Throttle // how far the gateway holds back
	size     int      // full, as far as it is not held back
	queue    int
	running  int
	waiting  int
	starting startup
	order    []string           // principals that wait, next first
	calls    map[string][]*turn // of each, oldest first
}

// turn is one waiting call.
type turn struct {
	ready   chan struct{} // closed when it may run, or is refused
	refused bool          // it had to make room; set before ready is closed
}

// NewConcurrency returns a limiter of size running and queue waiting calls; zero is
// 32, and 8 waiting calls for each running one. Nil principals bound nobody.
func NewConcurrency(size, queue int, principals *Principals) *Concurrency {
	s := &Concurrency{calls: make(map[string][]*turn), principals: principals}
	s.Resize(size, queue)
	return s
}

// Resize sets the bounds; running and waiting calls go on.
func (s *Concurrency) Resize(size, queue int) {
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

// Throttle sets how far the gateway holds back; running calls go on.
func (s *Concurrency) Throttle(t Throttle) {
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
func (s *Concurrency) fit() {
	s.size = s.full
	if s.held.Halve {
		s.size = max(1, s.full/2)
	}
	s.next()
}

// Resume takes a place for a call that gave its own back for a while. It does
// not wait: the call runs already, and so may be one beyond the bound.
func (s *Concurrency) Resume(principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	s.principals.resume(principal)
}

// Acquire waits for a place. It returns a refusal when the queue is full and the
// cause of the context when that ends first. Release gives the place back.
func (s *Concurrency) Acquire(ctx context.Context, server, principal string) error {
	s.mu.Lock()
	// With room, those who wait are those whose principal has as many as it may.
	if s.running < s.size && len(s.calls[principal]) == 0 && s.principals.enter(principal, s) {
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
func (s *Concurrency) late(server, principal string) *refusal.Error {
	if most, full := s.principals.full(principal); full {
		return refusal.CallerBusy(most)
	}
	return refusal.QueueFull(server)
}

// displace makes room in a full queue for a principal that has clearly fewer
// calls in it than another one: the other's newest is refused. mu is held.
func (s *Concurrency) displace(principal string) bool {
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

// Release returns the place of a call of a principal, which may be what another
// call of the same principal waits for, at whichever server.
func (s *Concurrency) Release(principal string) {
	s.mu.Lock()
	s.running--
	also := s.principals.leave(principal)
	s.next()
	s.mu.Unlock()
	for _, other := range also {
		other.poke()
	}
}

// poke looks again who may run.
func (s *Concurrency) poke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next()
}

// next hands free places to those who wait, except to those whose principal has
// as many as it may; mu is held.
func (s *Concurrency) next() {
	for skipped := 0; s.running < s.size && skipped < len(s.order); {
		principal := s.order[0]
		s.order = s.order[1:]
		if !s.principals.enter(principal, s) {
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
func (s *Concurrency) forget(principal string, gone *turn) bool {
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
