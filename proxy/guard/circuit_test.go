package guard

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// try sends one request through a circuit and reports whether it passed.
func try(c *circuit, o outcome) bool {
	permit, wait := c.enter(time.Now())
	if wait > 0 {
		return false
	}
	permit.end(o, time.Now())
	return true
}

func tryAll(c *circuit, n int, o outcome) (passed int) {
	for range n {
		if try(c, o) {
			passed++
		}
	}
	return passed
}

// forget waits, in a bubble, until nothing earlier counts.
func forget() { time.Sleep(breakerWindow + time.Second) }

func TestCircuitOpens(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		set  Breaker
		do   func(c *circuit)
		want State
	}{
		{"after so many failures in a row", Breaker{}, func(c *circuit) { tryAll(c, 5, failed) }, Open},
		{"not after fewer", Breaker{}, func(c *circuit) { tryAll(c, 4, failed) }, Closed},
		{"not when one between them goes well", Breaker{}, func(c *circuit) {
			for range 4 {
				tryAll(c, 4, failed)
				tryAll(c, 15, succeeded)
			}
		}, Closed},
		{"after as many as is said", Breaker{Failures: 1}, func(c *circuit) { tryAll(c, 1, failed) }, Open},
		{"at half of 20 calls", Breaker{}, func(c *circuit) {
			for range 10 {
				try(c, succeeded)
				try(c, failed)
			}
		}, Open},
		{"not at half of 18", Breaker{}, func(c *circuit) {
			for range 9 {
				try(c, succeeded)
				try(c, failed)
			}
		}, Closed},
		{"not below the ratio", Breaker{Ratio: 0.6}, func(c *circuit) {
			for range 50 {
				try(c, failed)
				try(c, succeeded)
			}
		}, Closed},
		{"not for failures that are long ago", Breaker{}, func(c *circuit) {
			for range 12 {
				tryAll(c, 4, failed)
				forget()
				tryAll(c, 16, succeeded)
			}
		}, Closed},
		{"not for what says nothing", Breaker{}, func(c *circuit) { tryAll(c, 100, ignored) }, Closed},
		{"what says nothing does not break a row", Breaker{}, func(c *circuit) {
			tryAll(c, 4, failed)
			tryAll(c, 3, ignored)
			tryAll(c, 1, failed)
		}, Open},
		{"never when it is off", Breaker{Off: true}, func(c *circuit) { tryAll(c, 100, failed) }, Closed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCircuit(tt.set, nil)
				tt.do(c)
				if got := c.view().state; got != tt.want {
					t.Errorf("%v, want %v", got, tt.want)
				}
			})
		})
	}
}

// The open time doubles while trials fail, and starts again once the circuit was closed
// for a while.
func TestCircuitOpenTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(Breaker{}, nil)
		tryAll(c, 5, failed)
		for _, want := range []time.Duration{10, 20, 40, 80, 120, 120} {
			began := time.Now()
			for !try(c, failed) {
				time.Sleep(time.Second)
			}
			if got := time.Since(began); got != want*time.Second {
				t.Fatalf("open for %v, want %v", got, want*time.Second)
			}
		}
		reopen := func() time.Duration {
			c.endOpenTime()
			try(c, succeeded)
			if got := c.view().state; got != Closed {
				t.Fatalf("after a trial that went well: %v", got)
			}
			tryAll(c, 5, failed)
			return time.Until(c.view().until)
		}
		if got := reopen(); got != longestOpen {
			t.Errorf("at once again: open for %v", got)
		}
		c.endOpenTime()
		try(c, succeeded)
		time.Sleep(31 * time.Second)
		tryAll(c, 5, failed)
		if got := time.Until(c.view().until); got != 10*time.Second {
			t.Errorf("after a while: open for %v", got)
		}
		c.reset()
		tryAll(c, 5, failed)
		if got := time.Until(c.view().until); got != 10*time.Second {
			t.Errorf("after a reset: open for %v", got)
		}
	})
}

// While half-open one request passes. One that never ends does not prevent another
// trial, and counts when it does end.
func TestCircuitTrials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(Breaker{}, nil)
		tryAll(c, 5, failed)
		c.endOpenTime()
		lost, wait := c.enter(time.Now())
		if wait > 0 {
			t.Fatal("no trial passes")
		}
		if _, wait := c.enter(time.Now()); wait != trialTime || c.refusesFor(time.Now()) != trialTime {
			t.Fatalf("a second one must wait %v", wait)
		}
		time.Sleep(trialTime)
		if c.refusesFor(time.Now()) != 0 {
			t.Fatal("the trial that is lost blocks the circuit")
		}
		if !try(c, ignored) || c.view().state != HalfOpen {
			t.Fatal("a trial that says nothing decides")
		}
		time.Sleep(time.Minute)
		lost.end(succeeded, time.Now())
		if got := c.view().state; got != Closed {
			t.Errorf("the late outcome is lost: %v", got)
		}
		lost.end(failed, time.Now()) // a second one is of nothing
		if got := c.view(); got.state != Closed || got.failures != 0 {
			t.Errorf("told twice: %+v", got)
		}

		tryAll(c, 5, failed)
		c.endOpenTime()
		if try(c, failed); c.view().state != Open {
			t.Error("a trial that failed does not open it")
		}
	})
}

// A call from before the circuit opened closes it when it succeeds; its failure tells
// nothing new.
func TestCircuitLateOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for late, want := range map[outcome]State{succeeded: HalfOpen, failed: Open, ignored: Open} {
			c := newCircuit(Breaker{}, nil)
			old, _ := c.enter(time.Now())
			tryAll(c, 5, failed)
			before := c.view().until
			old.end(late, time.Now())
			if got := c.view(); got.state != want || want == Open && got.until != before {
				t.Errorf("outcome %d: %+v, want %v", late, got, want)
			}
		}
	})
}

func TestCircuitConfigure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var states []string
		c := newCircuit(Breaker{Failures: 3}, nil)
		c.changed = func() { states = append(states, c.state.String()) }
		tryAll(c, 2, failed)
		c.configure(Breaker{Failures: 3}) // the same
		tryAll(c, 1, failed)
		if c.view().state != Open {
			t.Fatal("a reload that changes nothing forgets what was counted")
		}
		until := c.view().until
		c.configure(Breaker{Failures: 7, Open: time.Second})
		if got := c.view(); got.state != Open || got.until != until {
			t.Fatalf("a reload changes an open circuit: %+v", got)
		}
		c.configure(Breaker{Off: true})
		if got := c.view().state; got != Closed {
			t.Errorf("switched off: %v", got)
		}
		if want := []string{"open", "closed"}; !slices.Equal(states, want) {
			t.Errorf("told %v, want %v", states, want)
		}
		if c.reset() {
			t.Error("the reset of a closed circuit is a change")
		}
	})
}

// Whatever happens, a circuit allows a request within the longest open time, and a
// success closes it.
func TestCircuitNeverStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(5, 8))
		for range 300 {
			c := newCircuit(Breaker{Failures: 1 + random.IntN(4), Open: time.Duration(1+random.IntN(30)) * time.Second}, nil)
			var open []circuitPermit
			for range 60 {
				switch random.IntN(6) {
				case 0, 1:
					if permit, wait := c.enter(time.Now()); wait == 0 {
						open = append(open, permit)
					}
				case 2, 3:
					if len(open) > 0 {
						i := random.IntN(len(open))
						open[i].end(outcome(random.IntN(3)), time.Now())
						open = slices.Delete(open, i, i+1)
					}
				case 4:
					time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
				case 5:
					if random.IntN(4) == 0 {
						c.endOpenTime()
					}
				}
			}
			time.Sleep(longestOpen) // what is open is never ended
			last, wait := c.enter(time.Now())
			if wait > 0 {
				t.Fatalf("after the longest time it still refuses for %v: %+v", wait, c.view())
			}
			last.end(succeeded, time.Now())
			if got := c.view().state; got != Closed {
				t.Fatalf("a request that went well leaves it %v", got)
			}
		}
	})
}
