package guard

import (
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Breaker configures when something that fails is no longer called. Zero fields stand
// for the defaults.
type Breaker struct {
	// Number of consecutive failures that open the breaker. Default: 5.
	Failures int `config:"failures" min:"1" max:"1000000"`
	// Ratio of failures that opens the breaker, once there were 20 calls within 30s. Default: 0.5.
	Ratio float64 `config:"ratio" min:"0.01" max:"1"`
	// Longest time that the breaker stays open at first before it tries a call. The time doubles up to 2m after each
	// failed trial. Default: 10s.
	Open time.Duration `config:"open" min:"1ms" max:"2m"`
	// Turns the breaker off. Default: false.
	Off bool `config:"off"`
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
	// breakerWindow is the time over which the failure ratio is counted, in steps of
	// breakerStep. breakerLeast is how many calls the ratio needs.
	breakerWindow, breakerStep, breakerLeast = 30 * time.Second, 3 * time.Second, 20
	// longestOpen bounds the open time, which doubles each time that a breaker opens
	// again.
	longestOpen = 2 * time.Minute
	// trialTime is how long a half-open breaker waits for the outcome of a trial before
	// it allows another. A late outcome still counts.
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

// outcome is what a finished request tells about its backend.
type outcome uint8

const (
	ignored outcome = iota // counts for nothing
	succeeded
	failed
)

// errFailed reports a failure to the counter.
var errFailed = errors.New("failed")

// circuit is one breaker. While it is closed, a gobreaker counts outcomes over a
// rolling window and decides when to open. The library drops the outcome of a request
// that took longer than the window. So requests are counted when they end, and
// consecutive failures, which no window bounds, are counted here. The open time and the
// trials are decided here too: the library has no growing open time, cannot close
// early, and waits forever for an outcome that never comes. It is safe for concurrent
// use.
type circuit struct {
	changed func() // called after each change of state, with mu held; must not block or call back

	mu          sync.Mutex
	set         Breaker
	counter     *gobreaker.TwoStepCircuitBreaker[struct{}]
	consecutive int    // consecutive failures
	tripped     bool   // the counter has just tripped
	era         uint64 // number of changes of state
	state       State
	since       time.Time
	until       time.Time // latest end of the open time
	reopens     int       // how often it reopened before it was closed for a while; -1 before the first time
	opens       uint64    // how often it opened in total
	trials      int       // in flight while half-open
	tried       time.Time // start of the latest trial
}

func newCircuit(set Breaker, changed func()) *circuit {
	c := &circuit{set: set.withDefaults(), changed: changed, since: time.Now(), reopens: -1}
	c.startCounting()
	return c
}

// configure replaces the settings. An open breaker stays open, unless it is switched
// off. A closed one starts to count anew.
func (c *circuit) configure(set Breaker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if set = set.withDefaults(); set == c.set {
		return
	}
	c.set = set
	if set.Off && c.state != Closed {
		c.setState(Closed, time.Now())
		return
	}
	c.startCounting()
}

// startCounting resets the counter; mu is held.
func (c *circuit) startCounting() {
	c.consecutive, c.tripped = 0, false
	c.counter = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Interval: breakerWindow, BucketPeriod: breakerStep,
		ReadyToTrip: c.ready(c.set),
		OnStateChange: func(_ string, _, to gobreaker.State) {
			c.tripped = to == gobreaker.StateOpen // mu is held by the reporter of the outcome
		},
	})
}

// ready returns the function that decides when to open; the reporter of the outcome
// holds mu.
func (c *circuit) ready(set Breaker) func(gobreaker.Counts) bool {
	return func(n gobreaker.Counts) bool {
		if set.Off {
			return false
		}
		ended := n.TotalSuccesses + n.TotalFailures
		return c.consecutive >= set.Failures ||
			ended >= breakerLeast && float64(n.TotalFailures) >= set.Ratio*float64(ended)
	}
}

// circuitPermit lets one request pass a circuit. Its outcome is reported once.
type circuitPermit struct {
	of    *circuit
	era   uint64
	trial bool // of a half-open circuit
}

// refusesFor returns how long no request may pass; 0 when one may. It changes nothing.
func (c *circuit) refusesFor(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refuses(now)
}

// refuses is refusesFor with mu held.
func (c *circuit) refuses(now time.Time) time.Duration {
	switch {
	case c.state == Open:
		return max(0, c.until.Sub(now))
	case c.state == HalfOpen && c.trials > 0:
		return max(0, c.tried.Add(trialTime).Sub(now))
	}
	return 0
}

// enter lets a request pass, or returns how long none may.
func (c *circuit) enter(now time.Time) (t circuitPermit, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait := c.refuses(now); wait > 0 {
		return circuitPermit{}, wait
	}
	t = circuitPermit{of: c, era: c.era}
	if c.state == Open { // its time is over
		c.setState(HalfOpen, now)
		t.era = c.era
	}
	if c.state == HalfOpen {
		c.trials++
		c.tried = now
		t.trial = true
	}
	return t, 0
}

// end reports the outcome of a request.
func (t *circuitPermit) end(o outcome, now time.Time) {
	c := t.of
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case t.era != c.era:
		if o == succeeded && c.state == Open { // it began earlier, and shows that the backend works again
			c.setState(HalfOpen, now)
		}
	case t.trial:
		c.trials--
		switch o {
		case succeeded:
			c.setState(Closed, now)
		case failed:
			c.open(now)
		case ignored:
		}
	case o != ignored:
		c.record(o)
		if c.tripped {
			c.open(now)
		}
	}
}

// record counts an outcome while the circuit is closed; mu is held.
func (c *circuit) record(o outcome) {
	done, err := c.counter.Allow()
	if err != nil {
		return // it has tripped
	}
	if o == succeeded {
		c.consecutive = 0
		done(nil)
		return
	}
	c.consecutive++
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
	c.setState(Open, now)
}

// trip opens a closed circuit.
func (c *circuit) trip(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == Closed && !c.set.Off {
		c.open(now)
	}
}

// openTime is the longest open time of a breaker that has reopened so many times.
func openTime(first time.Duration, reopens int) time.Duration {
	for ; reopens > 0 && first < longestOpen; reopens-- {
		first *= 2
	}
	return min(first, longestOpen)
}

// setState enters a state; mu is held.
func (c *circuit) setState(s State, now time.Time) {
	c.state, c.since = s, now
	c.era++
	c.trials = 0
	if s == Closed {
		c.startCounting()
	}
	if c.changed != nil {
		c.changed()
	}
}

// endOpenTime ends the open time at once: the backend answers again.
func (c *circuit) endOpenTime() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == Open {
		c.setState(HalfOpen, time.Now())
	}
}

// reset closes the circuit and its counters. It reports whether the state has changed.
func (c *circuit) reset() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := c.state != Closed
	c.reopens = -1
	if changed {
		c.setState(Closed, time.Now())
		return true
	}
	c.era++
	c.startCounting()
	return false
}

// inherit takes over the state of a predecessor's circuit.
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
	c.setState(state, since)
}

// circuitView is the visible state of a circuit.
type circuitView struct {
	state    State
	since    time.Time
	until    time.Time // of an open circuit
	reopens  int
	opens    uint64
	failures int // consecutive, of a closed circuit
}

func (c *circuit) view() circuitView {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := circuitView{state: c.state, since: c.since, reopens: max(0, c.reopens), opens: c.opens}
	switch c.state {
	case Open:
		v.until = c.until
	case Closed:
		v.failures = c.consecutive
	case HalfOpen:
	}
	return v
}
