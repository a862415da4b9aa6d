package opa_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate/opa"
)

// After five failures in a row the server is left alone for a second; then one
// question is let through, and its outcome decides.
func TestCircuit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c opa.Circuit
		enter := func(want bool) bool {
			t.Helper()
			ok, probe := c.Enter()
			if ok != want {
				t.Fatalf("enter: %v, want %v", ok, want)
			}
			return probe
		}
		fail := func() { t.Helper(); c.Leave(enter(true), false, false) }
		for range 4 {
			fail()
		}
		c.Leave(enter(true), true, false) // a success begins the count anew
		for range 4 {
			fail()
		}
		for range 20 {
			c.Leave(enter(true), false, true) // given up by the asker
		}
		fail()
		enter(false)
		time.Sleep(time.Second - 1)
		enter(false)
		time.Sleep(time.Nanosecond)
		probe := enter(true)
		enter(false) // the one is out
		c.Leave(probe, false, true)
		probe = enter(true)          // given up: it said nothing
		c.Leave(false, false, false) // one from before has failed late
		enter(false)
		c.Leave(probe, false, false)
		enter(false)
		time.Sleep(time.Second)
		c.Leave(enter(true), true, false)
		for range 10 {
			enter(true)
		}
	})
}
