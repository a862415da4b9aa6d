package budget_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/budget"
)

// A clock that is set back continues with elapsed time; one that is set forward is
// followed.
func TestClockNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shift := time.Duration(0) // of the system's clock; its monotonic reading goes on
		started := time.Now()
		c := budget.Clock{System: func() (time.Time, time.Duration) {
			return time.Now().Add(shift), time.Since(started)
		}}
		begin := c.Now()
		at := func(what string, want time.Duration) {
			t.Helper()
			if got := c.Now().Sub(begin); got != want {
				t.Errorf("%s: %s after the beginning, want %s", what, got, want)
			}
		}
		time.Sleep(time.Minute)
		at("as usual", time.Minute)
		shift = -time.Hour
		at("set back", time.Minute)
		time.Sleep(time.Minute)
		at("a minute later", 2*time.Minute)
		time.Sleep(2 * time.Hour)
		at("once it was later again", 122*time.Minute)
		shift = 24 * time.Hour
		at("set forward", 122*time.Minute+24*time.Hour)
		shift = 0
		time.Sleep(time.Second)
		at("and back again", 122*time.Minute+24*time.Hour+time.Second)
	})
}

func TestClockShowsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c budget.Clock
		for range 3 {
			if got, want := c.Now(), time.Now().UTC().Truncate(time.Millisecond); !got.Equal(want) || got.Location() != time.UTC {
				t.Errorf("%s, want %s", got, want)
			}
			time.Sleep(1500 * time.Microsecond)
		}
	})
}
