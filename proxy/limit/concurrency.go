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
	// queueTime bounds the wait for a permit.
	queueTime = 30 * time.Second
)

// Throttle reduces the configured limits while the gateway is overloaded. The zero
// Throttle does not.
type Throttle struct {
	// Halve allows half as many running calls at each server, and at least one.
	Halve bool
	// NoQueue refuses calls that would have to wait for a permit, and those that wait.
	NoQueue bool
}

// Concurrency bounds the running calls of one backend, and with [Principals] the
// running calls of one principal at all backends. Waiting calls are served round robin
// over the principals: no call waits behind all calls of another principal, and a
// principal at its limit keeps nobody else waiting. Create one with [NewConcurrency].
// It is safe for concurrent use.
type Concurrency struct {
	principals *Principals // its lock is taken after mu, never before

	mu       sync.Mutex
	full     int      // the configured limit
	held     Throttle // the current throttle
	size     int      // full, reduced by the throttle
	queue    int
	running  int
	waiting  int
	starting startup
	order    []string             // principals with waiting calls, next first
	calls    map[string][]*waiter // waiting calls of each principal, oldest first
}

// waiter is one waiting call.
type waiter struct {
	ready   chan struct{} // closed when it may run, or is refused
	refused bool          // it had to make room; set before ready is closed
}

// NewConcurrency returns a limiter of size running and queue waiting calls. Zero values
// stand for 32, and 8 waiting calls for each running one. With nil principals,
// principals have no limit.
func NewConcurrency(size, queue int, principals *Principals) *Concurrency {
	s := &Concurrency{calls: make(map[string][]*waiter), principals: principals}
	s.Resize(size, queue)
	return s
}

// Resize sets the limits. Running and waiting calls go on.
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
	s.applyThrottle()
}

// Throttle sets the throttle. Running calls go on.
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
	s.applyThrottle()
}

// applyThrottle computes the limits in force; mu is held.
func (s *Concurrency) applyThrottle() {
	s.size = s.full
	if s.held.Halve {
		s.size = max(1, s.full/2)
	}
	s.grant()
}

// Resume takes a permit for a call that gave its own back for a while. It does not
// wait. The call runs already, so it may exceed the limit.
func (s *Concurrency) Resume(principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	s.principals.resume(principal)
}

// Acquire waits for a permit. It returns a refusal when the queue is full, and the
// cause of the context when that ends first. Release gives the permit back.
func (s *Concurrency) Acquire(ctx context.Context, server, principal string) error {
	s.mu.Lock()
	// With free permits, only calls of principals at their limit wait.
	if s.running < s.size && len(s.calls[principal]) == 0 && s.principals.enter(principal, s) {
		s.running++
		s.mu.Unlock()
		return nil
	}
	if s.held.NoQueue || s.waiting >= s.queue && !s.displace(principal) {
		s.mu.Unlock()
		return refusal.QueueFull(server)
	}
	mine := &waiter{ready: make(chan struct{})}
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
		why = s.timedOut(server, principal)
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
	return nil // or its permit came at the same moment
}

// timedOut is the refusal of a call that has waited too long: for its server, or for
// other calls of its principal.
func (s *Concurrency) timedOut(server, principal string) *refusal.Error {
	if most, full := s.principals.full(principal); full {
		return refusal.CallerBusy(most)
	}
	return refusal.QueueFull(server)
}

// displace makes room in a full queue for a principal that has clearly fewer calls in
// it than another one. It refuses the newest call of the other. mu is held.
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

// Release returns the permit of a call. Another call of the same principal may wait for
// it at any server.
func (s *Concurrency) Release(principal string) {
	s.mu.Lock()
	s.running--
	also := s.principals.leave(principal)
	s.grant()
	s.mu.Unlock()
	for _, other := range also {
		other.recheck()
	}
}

// recheck grants permits to waiting calls that may run now.
func (s *Concurrency) recheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grant()
}

// grant gives free permits to waiting calls, except to those of principals at their
// limit; mu is held.
func (s *Concurrency) grant() {
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

// forget takes a waiting call out. It returns false when the call no longer waits.
func (s *Concurrency) forget(principal string, gone *waiter) bool {
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
