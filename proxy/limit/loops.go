package limit

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// repeatPause between the end of a call and the next ends a row of the same
	// calls: who looks now and then is in no loop.
	repeatPause = 10 * time.Second
	// repeatHold is how long a row that was too long is held, unless another call
	// ends it.
	repeatHold = time.Minute
	// maxRows is how many principals are looked at; of more, those that were
	// quiet for the longest time are forgotten.
	maxRows = 10000
)

// Loops finds callers that make the same call again and again, as a model does
// that is caught in a loop. Only a call that begins when the one before has been
// answered is a repetition: many at once are the work of a program. The zero Loops
// bounds nothing. It is safe for concurrent use.
type Loops struct {
	most atomic.Int64 // calls in a row; 0 for any number

	mu   sync.Mutex
	rows map[string]*row // by principal
}

// Call is a call as [Loops] compares it with others.
type Call struct {
	Principal, Server, Tool string
	Args                    [sha256.Size]byte // hash of the arguments
}

// row is the calls of one principal as long as they are the same.
type row struct {
	call    Call
	count   int
	running int
	ended   time.Time // when one of them last did
}

// Apply sets how many of the same calls a principal may make in a row, zero for any
// number. Rows that have begun go on.
func (s *Loops) Apply(most int) { s.most.Store(int64(most)) }

// Most is what [Loops.Apply] set.
func (s *Loops) Most() int { return int(s.most.Load()) }

// Begin notes a call. The returned function is called at its end. A nil function
// means that the call is one too many in a row for so long.
func (s *Loops) Begin(c Call) (end func(), wait time.Duration) {
	most := s.Most()
	if most <= 0 {
		return func() {}, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.rows[c.Principal]
	if r == nil || r.call != c || r.over(now, most) {
		s.makeRoom(now)
		r = &row{call: c, ended: now}
		s.rows[c.Principal] = r
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

// Look returns how long a call would have to wait, 0 for not at all, and notes nothing.
func (s *Loops) Look(c Call) time.Duration {
	most := s.Most()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.rows[c.Principal]
	if most <= 0 || r == nil || r.call != c || r.over(now, most) || r.running > 0 || r.count < most {
		return 0
	}
	return repeatHold - now.Sub(r.ended)
}

// over tells whether the row has ended.
func (r *row) over(now time.Time, most int) bool {
	if r.running > 0 {
		return false
	}
	rest := now.Sub(r.ended)
	return rest >= repeatHold || rest > repeatPause && r.count < most
}

// makeRoom forgets rows that have ended, where there are many; mu is held.
func (s *Loops) makeRoom(now time.Time) {
	if s.rows == nil {
		s.rows = make(map[string]*row)
	}
	if len(s.rows) < maxRows {
		return
	}
	s.forgetQuiet(now)
	for principal, r := range s.rows { // of so many at once, any
		if len(s.rows) < maxRows {
			return
		}
		if r.running == 0 {
			delete(s.rows, principal)
		}
	}
}

// Sweep forgets rows that have ended.
func (s *Loops) Sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetQuiet(now)
}

// forgetQuiet is Sweep; mu is held.
func (s *Loops) forgetQuiet(now time.Time) {
	for principal, r := range s.rows {
		if r.running == 0 && now.Sub(r.ended) >= repeatHold {
			delete(s.rows, principal)
		}
	}
}
