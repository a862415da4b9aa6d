package guard

import (
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Breaker says when something that fails is no longer called. Zero fields are
// replaced by the defaults.
type Breaker struct {
	Failures int           // in a row; 5
	Ratio    float64       // of at least 20 calls within 30 s; 0.5
	Open     time.Duration // the longest that it stays open the first time; 10 s
	Off      bool          // it never opens
}

func (b Breaker) withDefaults() Breaker {
	if b.Failures <= 0 {
		b.Failures = 5
	}
	if !(b.Ratio > 0) {
		b.Ratio = 0.5
	}
	if b.Open <= 0 {
		b.Open = 10 * time.Second
	}
	return b
}

const (
	// breakerWindow is the time over which the ratio is counted, in steps of
	// breakerStep, and breakerLeast how many calls it takes.
	breakerWindow, breakerStep, breakerLeast = 30 * time.Second, 3 * time.Second, 20
	// longestOpen bounds the open time, which doubles each time that a breaker
	// opens again.
	longestOpen = 2 * time.Minute
	// trialTime is how long a half-open breaker waits for the outcome of a trial
	// before it lets another one through, so that none is ever lost: the outcome
	// of each counts whenever it comes.
	trialTime = 2 * time.Second
)

// State is the state of a circuit breaker.
type State uint8

// The states. The zero State is closed: calls pass.
const (
	Closed State = iota
	Open
	HalfOpen
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case Open:
		return "open"
	case HalfOpen:
		return "half-open"
	default:
		return "closed"
	}
}

// outcome is what a request says of what it was sent to.
type outcome uint8

const (
	tellsNothing outcome = iota // the zero outcome counts for nobody
	succeeded
	failed
)

// errFailed is how a failure is told to the counter.
var errFailed = errors.New("failed")

// circuit is one breaker. While it is closed a gobreaker counts the outcomes
// over a rolling window and tells when to open. The library drops the outcome of a
// request that took longer than the window, so a request is counted when it ends,
// and the failures in a row, which no window bounds, are counted here. How long
// it stays open, and who is let through afterwards, is decided here too: the
// library knows neither a growing time nor a way to end it early, and waits for
// ever for an outcome that never comes. It is safe for concurrent use.
type circuit struct {
	changed func() // called after each change of state, with mu held; must not block or call back

	mu      sync.Mutex
	set     Breaker
	counter *gobreaker.TwoStepCircuitBreaker[struct{}]
	row     int    // failures in a row
	tripped bool   // the counter has just said so
	era     uint64 // counts the changes of state
	state   State
	since   time.Time
	until   time.Time // when it is open, at the latest
	reopens int       // how often it opened again before it had been closed for a while; -1 before the first time
	opens   uint64    // how often it opened in all
	trials  int       // in flight while it is half-open
	tried   time.Time // when the latest of them began
}

func newCircuit(set Breaker, changed func()) *circuit {
	c := &circuit{set: set.withDefaults(), changed: changed, since: time.Now(), reopens: -1}
	c.count()
	return c
}

// configure replaces the settings. A breaker that is open stays so, unless it is
// switched off; one that is closed begins to count anew.
func (c *circuit) configure(set Breaker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if set = set.withDefaults(); set == c.set {
		return
	}
	c.set = set
	if set.Off && c.state != Closed {
		c.become(Closed, time.Now())
		return
	}
	c.count()
}

// count begins to count; mu is held.
func (c *circuit) count() {
	c.row, c.tripped = 0, false
	c.counter = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Interval: breakerWindow, BucketPeriod: breakerStep,
		ReadyToTrip: c.ready(c.set),
		OnStateChange: func(_ string, _, to gobreaker.State) {
			c.tripped = to == gobreaker.StateOpen // mu is held by whoever told the outcome
		},
	})
}

// ready returns when the counter opens; mu is held by whoever told the outcome.
func (c *circuit) ready(set Breaker) func(gobreaker.Counts) bool {
	return func(n gobreaker.Counts) bool {
		if set.Off {
			return false
		}
		ended := n.TotalSuccesses + n.TotalFailures
		return c.row >= set.Failures ||
			ended >= breakerLeast && float64(n.TotalFailures) >= set.Ratio*float64(ended)
	}
}

// ticket is what one request passed a circuit with. Its outcome is told once.
type ticket struct {
	of    *circuit
	era   uint64
	trial bool // of a half-open one
}

// refusesFor tells how long no request passes; 0 when one does. It changes
// nothing.
func (c *circuit) refusesFor(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refuses(now)
}

// refuses is refusesFor; mu is held.
func (c *circuit) refuses(now time.Time) time.Duration {
	switch {
	case c.state == Open:
		return max(0, c.until.Sub(now))
	case c.state == HalfOpen && c.trials > 0:
		return max(0, c.tried.Add(trialTime).Sub(now))
	}
	return 0
}

// enter lets a request pass, or tells how long none does.
func (c *circuit) enter(now time.Time) (t ticket, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait := c.refuses(now); wait > 0 {
		return ticket{}, wait
	}
	t = ticket{of: c, era: c.era}
	if c.state == Open { // its time is over
		c.become(HalfOpen, now)
		t.era = c.era
	}
	if c.state == HalfOpen {
		c.trials++
		c.tried = now
		t.trial = true
	}
	return t, 0
}

// end tells the outcome of a request.
func (t *ticket) end(o outcome, now time.Time) {
	c := t.of
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case t.era != c.era:
		if o == succeeded && c.state == Open { // it began earlier, and shows that all is well again
			c.become(HalfOpen, now)
		}
	case t.trial:
		c.trials--
		switch o {
		case succeeded:
			c.become(Closed, now)
		case failed:
			c.open(now)
		case tellsNothing:
		}
	case o != tellsNothing:
		c.counts(o)
		if c.tripped {
			c.open(now)
		}
	}
}

// counts takes an outcome while the circuit is closed; mu is held.
func (c *circuit) counts(o outcome) {
	done, err := c.counter.Allow()
	if err != nil {
		return // it has tripped
	}
	if o == succeeded {
		c.row = 0
		done(nil)
		return
	}
	c.row++
	done(errFailed)
}

// open opens the circuit; mu is held.
func (c *circuit) open(now time.Time) {
	c.reopens++
	if c.state == Closed && now.Sub(c.since) > breakerWindow {
		c.reopens = 0
	}
	c.opens++
	c.until = now.Add(openTime(c.set.Open, c.reopens))
	c.become(Open, now)
}

// openTime is the longest that a breaker stays open which has opened again so
// many times.
func openTime(first time.Duration, reopens int) time.Duration {
	for ; reopens > 0 && first < longestOpen; reopens-- {
		first *= 2
	}
	return min(first, longestOpen)
}

// become enters a state; mu is held.
func (c *circuit) become(s State, now time.Time) {
	c.state, c.since = s, now
	c.era++
	c.trials = 0
	if s == Closed {
		c.count()
	}
	if c.changed != nil {
		c.changed()
	}
}

// alive ends the open time at once: what is behind the circuit answers again.
func (c *circuit) alive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == Open {
		c.become(HalfOpen, time.Now())
	}
}

// reset closes the circuit and forgets what was counted. It tells whether that
// was a change of state.
func (c *circuit) reset() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := c.state != Closed
	c.reopens = -1
	if changed {
		c.become(Closed, time.Now())
		return true
	}
	c.era++
	c.count()
	return false
}

// inherit takes over the state of the circuit of a predecessor, so that what was
// learned of it holds on.
func (c *circuit) inherit(from *circuit) {
	from.mu.Lock()
	state, since, until, reopens, opens := from.state, from.since, from.until, from.reopens, from.opens
	from.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reopens, c.opens = reopens, opens
	if state == c.state || c.set.Off {
		return
	}
	c.until = until
	c.become(state, since)
}

// circuitView is what a circuit shows of itself.
type circuitView struct {
	state    State
	since    time.Time
	until    time.Time // of an open one
	reopens  int
	opens    uint64
	failures int // in a row, of a closed one
}

func (c *circuit) view() circuitView {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := circuitView{state: c.state, since: c.since, reopens: max(0, c.reopens), opens: c.opens}
	switch c.state {
	case Open:
		v.until = c.until
	case Closed:
		v.failures = c.row
	case HalfOpen:
	}
	return v
}
