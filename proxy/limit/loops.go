package limit

import (
	"context"
	"crypto/sha256"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
)

const (
	// maxStreaks bounds the principals that are tracked. Beyond it, those that were
	// quiet for longest are forgotten.
	maxStreaks = 10000
)

// Loops finds callers that make the same call again and again, like a model that is
// caught in a loop. Only a call that begins after the previous one was answered counts:
// many at once are the work of a program. With [Loops.Share], gateways count together.
// The zero Loops allows everything. It is safe for concurrent use.
type Loops struct {
	most   atomic.Int64 // calls in a row; 0 for no limit
	shared *Shared      // nil for none

	mu      sync.Mutex
	streaks map[string]*streak // by principal
}

// Shared is where gateways that count together do so.
type Shared struct {
	Meter *rate.Meter // knows whether the shared store answers
	Rows  rate.Rows
}

// Call identifies a call for comparison with others.
type Call struct {
	Principal, Server, Tool string
	Args                    [sha256.Size]byte // hash of the arguments
}

// row is the call for other gateways.
func (c *Call) row() rate.RowCall {
	text := strconv.Itoa(len(c.Server)) + ":" + c.Server + strconv.Itoa(len(c.Tool)) + ":" + c.Tool
	return rate.RowCall{Caller: c.Principal, Call: sha256.Sum256(append([]byte(text), c.Args[:]...))}
}

// streak is a series of identical calls of one principal.
type streak struct {
	call    Call
	count   int
	running int
	ended   time.Time     // end of the latest of them
	asking  chan struct{} // closed when the shared store has answered; nil while it is not asked
}

// Share has gateways count together, while the store that they share answers. It must be
// called before anything else.
func (s *Loops) Share(with *Shared) { s.shared = with }

// Apply sets how many identical calls a principal may make in a row, zero for no limit.
// Current streaks go on.
func (s *Loops) Apply(most int) { s.most.Store(int64(most)) }

// Most returns the limit of [Loops.Apply].
func (s *Loops) Most() int { return int(s.most.Load()) }

// Begin counts a call. The returned function must be called at its end. A nil function
// means that the call is refused, and wait is how long. Where the shared store is asked,
// it is also asked for what the call takes from rates, which may be nil.
func (s *Loops) Begin(ctx context.Context, c Call, rates *rate.Taking) (end func(), wait time.Duration) {
	most := s.Most()
	if most <= 0 {
		return func() {}, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.current(c, most)
	for r.asking != nil { // whether this call is one of many at once, or one more of a loop
		asking := r.asking
		s.mu.Unlock()
		<-asking
		s.mu.Lock()
		r = s.current(c, most)
	}
	if r.running == 0 {
		if s.shared == nil || !s.ask(ctx, r, most, rates) {
			r.begin(most)
		}
		if r.count > most {
			r.count = most
			return nil, rate.RowHold - time.Since(r.ended)
		}
	}
	r.running++
	return func() { s.end(r) }, 0
}

// current is the streak that a call belongs to; mu is held.
func (s *Loops) current(c Call, most int) *streak {
	now := time.Now()
	r := s.streaks[c.Principal]
	if r == nil || r.call != c || r.over(now, most) {
		s.makeRoom(now)
		r = &streak{call: c, ended: now}
		s.streaks[c.Principal] = r
	}
	return r
}

// begin counts a call. A count above most refuses it.
func (r *streak) begin(most int) {
	r.count = min(r.count, most) + 1
}

// ask has the shared store count a call, and sets the streak to what that says. It
// reports whether the store has answered. mu is held, but not while it waits.
func (s *Loops) ask(ctx context.Context, r *streak, most int, rates *rate.Taking) bool {
	var count int
	var wait time.Duration
	ok := s.exchange(ctx, r, func(ctx context.Context) (err error) {
		if count, wait, err = s.shared.Rows.Begin(ctx, r.call.row(), most, rates); err != nil {
			rates.Answer(-1, 0) // each gateway counts on its own until the store answers
		}
		return err
	})
	switch {
	case !ok:
		return false
	case count < 0:
		r.count, r.ended = most+1, time.Now().Add(wait-rate.RowHold)
	default:
		r.count = min(count, most)
	}
	return true
}

// exchange asks the shared store about a streak, while other calls of the streak wait. mu
// is held, but not while the store is asked.
func (s *Loops) exchange(ctx context.Context, r *streak, ask func(context.Context) error) (answered bool) {
	asking := make(chan struct{})
	r.asking = asking
	s.mu.Unlock()
	answered = s.shared.Meter.Ask(ctx, ask)
	s.mu.Lock()
	r.asking = nil
	close(asking)
	return answered
}

// end notes that one call of a streak has ended. It tells other gateways before the caller
// has the answer, because the caller may make the next call at one of them.
func (s *Loops) end(r *streak) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.running--
	r.ended = time.Now()
	if s.shared == nil || r.running > 0 || r.asking != nil || s.streaks[r.call.Principal] != r {
		return
	}
	s.exchange(context.Background(), r, func(ctx context.Context) error { return s.shared.Rows.End(ctx, r.call.row()) })
}

// Look returns how long a call would have to wait, 0 for not at all, without counting
// it.
func (s *Loops) Look(ctx context.Context, c Call) time.Duration {
	most := s.Most()
	if most <= 0 {
		return 0
	}
	wait, running := s.look(c, most)
	if running || s.shared == nil {
		return wait
	}
	var count int
	var shared time.Duration
	if !s.shared.Meter.Ask(ctx, func(ctx context.Context) (err error) {
		count, shared, err = s.shared.Rows.Look(ctx, c.row(), most)
		return err
	}) {
		return wait
	}
	if count < 0 {
		return shared
	}
	return 0
}

// look is Look for this gateway alone. running means that the call is one of many at once.
func (s *Loops) look(c Call, most int) (wait time.Duration, running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.streaks[c.Principal]
	if r == nil || r.call != c || r.over(now, most) || r.running > 0 || r.count < most {
		return 0, r != nil && r.call == c && r.running > 0
	}
	return rate.RowHold - now.Sub(r.ended), false
}

// over reports whether the streak has ended.
func (r *streak) over(now time.Time, most int) bool {
	if r.running > 0 || r.asking != nil {
		return false
	}
	rest := now.Sub(r.ended)
	return rest >= rate.RowHold || rest > rate.RowPause && r.count < most
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
		if r.running == 0 && r.asking == nil {
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
		if r.running == 0 && r.asking == nil && now.Sub(r.ended) >= rate.RowHold {
			delete(s.streaks, principal)
		}
	}
}
