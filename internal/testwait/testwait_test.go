package testwait

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWithin(t *testing.T) {
	for name, tt := range map[string]struct {
		takes, holds time.Duration // each look; when it holds
		want         bool
		looks        int
		over         time.Duration
	}{
		"at once":            {0, 0, true, 1, 0},
		"soon":               {0, 3 * time.Millisecond, true, 4, 3 * time.Millisecond},
		"never":              {0, time.Hour, false, 63, time.Second},
		"when time is over":  {0, time.Second, true, 63, time.Second},
		"slow looks":         {200 * time.Millisecond, time.Hour, false, 6, 1362 * time.Millisecond},
		"slower than d":      {2 * time.Second, time.Hour, false, 2, 4 * time.Second},
		"slow, and it holds": {2 * time.Second, 0, true, 1, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, looks := time.Now(), 0
				got := Within(time.Second, func() bool {
					looks++
					is := time.Since(began) >= tt.holds
					time.Sleep(tt.takes)
					return is
				})
				if over := time.Since(began); got != tt.want || looks != tt.looks || over != tt.over {
					t.Errorf("%v after %d looks in %v, want %v, %d, %v", got, looks, over, tt.want, tt.looks, tt.over)
				}
			})
		})
	}
}

// failing is a test that has failed once Fatalf was called.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper()                        {}
func (f *failing) Fatalf(format string, a ...any) { f.said = format }

func TestUntil(t *testing.T) {
	f := &failing{}
	Until(f, 0, "that it is so", func() bool { return true })
	if f.said != "" {
		t.Errorf("it holds, and %q is said", f.said)
	}
	Until(f, 0, "that it is so", func() bool { return false })
	if f.said == "" {
		t.Error("it does not hold, and the test goes on")
	}
}
