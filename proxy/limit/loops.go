package limit

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// repeatPause is the pause between two calls that ends a streak: polling now and
	// then is no loop.
	repeatPause = 10 * time.Second
	// repeatHold is how long a streak that was too long is refused, unless another call
	// ends it.
	repeatHold = time.Minute
	// maxStreaks bounds the principals that are tracked. Beyond it, those that were
	// quiet for longest are forgotten.
	maxStreaks = 10000
)

// Loops finds callers that make the same call again and again, like a model that is
// caught in a loop. Only a call that begins after the previous one was answered counts:
// many at once are the work of a program. The zero Loops allows everything. It is safe
// for concurrent use.
type Loops struct {
	most atomic.Int64 // calls in a row; 0 for no limit

	mu      sync.Mutex
	streaks map[string]*streak // by principal
}

// Call identifies a call for comparison with others.
type Call struct {
	Principal, Server, Tool string
	Args                    [sha256.Size]byte // hash of the arguments
}

// streak is a series of identical calls of one principal.
type streak struct {
	call    Call
	count   int
	running int
	ended   time.Time // end of the latest of them
}

// Apply sets how many identical calls a principal may make in a row, zero for no limit.
// Current streaks go on.
func (s *Loops) Apply(most int) { s.most.Store(int64(most)) }

// Most returns the limit of [Loops.Apply].
func (s *Loops) Most() int { return int(s.most.Load()) }

// Begin counts a call. The returned function must be called at its end. A nil function
// means that the call is refused, and wait is how long.
func (s *Loops) Begin(c Call) (end func(), wait time.Duration) {
	most := s.Most()
	if most <= 0 {
		return func() {}, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.streaks[c.Principal]
	if r == nil || r.call != c || r.over(now, most) {
		s.makeRoom(now)
		r = &streak{call: c, ended: now}
		s.streaks[c.Principal] = r
	}
	if r.running == 0 {
		if r.count >= most {
			return nil, repeatHold - now.Sub(r.ended)
		}
		r.count++
	}
	r.running++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.running--
		r.ended = time.Now()
	}, 0
}

// Look returns how long a call would have to wait, 0 for not at all, without counting
// it.
func (s *Loops) Look(c Call) time.Duration {
	most := s.Most()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.streaks[c.Principal]
	if most <= 0 || r == nil || r.call != c || r.over(now, most) || r.running > 0 || r.count < most {
		return 0
	}
	return repeatHold - now.Sub(r.ended)
}

// over reports whether the streak has ended.
func (r *streak) over(now time.Time, most int) bool {
	if r.running > 0 {
		return false
	}
	rest := now.Sub(r.ended)
	return rest >= repeatHold || rest > repeatPause && r.count < most
}

// makeRoom removes ended streaks when there are too many; mu is held.
func (s *Loops) makeRoom(now time.Time) {
	if s.streaks == nil {
		s.streaks = make(map[string]*streak)
	}
	if len(s.streaks) < maxStreaks {
		return
	}
	s.forgetQuiet(now)
	for principal, r := range s.streaks { // any of them, there are so many
		if len(s.streaks) < maxStreaks {
			return
		}
		if r.running == 0 {
			delete(s.streaks, principal)
		}
	}
}

// Sweep removes ended streaks.
func (s *Loops) Sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetQuiet(now)
}

// forgetQuiet is Sweep with mu held.
func (s *Loops) forgetQuiet(now time.Time) {
	for principal, r := range s.streaks {
		if r.running == 0 && now.Sub(r.ended) >= repeatHold {
			delete(s.streaks, principal)
		}
	}
}
