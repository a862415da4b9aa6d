package upstream

import (
	"testing"
	"testing/synctest"
	"time"
)

// When a call ends whose server works and then falls silent, in seconds.
func TestCallClockEnds(t *testing.T) {
	t.Parallel()
	const s = time.Second
	tests := []struct {
		name                 string
		patience, idle, hard time.Duration
		heard                []time.Duration // since the beginning
		rest                 [2]time.Duration
		want                 time.Duration
	}{
		{"silent", 10 * s, 3 * s, 60 * s, nil, [2]time.Duration{}, 10 * s},
		{"silent behind the hard cap", 10 * s, 3 * s, 5 * s, nil, [2]time.Duration{}, 5 * s},
		{"silent after progress", 10 * s, 3 * s, 60 * s, []time.Duration{1 * s, 2 * s}, [2]time.Duration{}, 5 * s},
		{"patience ends with the first progress", 10 * s, 3 * s, 60 * s, []time.Duration{9 * s}, [2]time.Duration{}, 12 * s},
		{"idle longer than patience", 3 * s, 10 * s, 60 * s, []time.Duration{2 * s}, [2]time.Duration{}, 12 * s},
		{"progress does not lift the hard cap", 10 * s, 3 * s, 8 * s, []time.Duration{2 * s, 4 * s, 6 * s, 7 * s}, [2]time.Duration{}, 8 * s},
		{"the client thinks", 10 * s, 3 * s, 60 * s, nil, [2]time.Duration{5 * s, 30 * s}, 40 * s},
		{"the client thinks, after progress", 10 * s, 3 * s, 60 * s, []time.Duration{4 * s}, [2]time.Duration{5 * s, 30 * s}, 33 * s},
		{"the client thinks beyond the hard cap", 10 * s, 3 * s, 20 * s, nil, [2]time.Duration{5 * s, 30 * s}, 20 * s},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, ended := time.Now(), make(chan time.Duration, 1)
				var c callClock
				c.start(tt.patience, tt.idle, tt.hard, func() { ended <- time.Since(began) })
				for _, at := range tt.heard {
					time.AfterFunc(at, c.progress)
				}
				if tt.rest[1] > 0 {
					time.AfterFunc(tt.rest[0], c.pause)
					time.AfterFunc(tt.rest[1], c.resume)
				}
				if got := <-ended; got != tt.want {
					t.Errorf("ended after %v, want %v", got, tt.want)
				}
				c.stop()
				time.Sleep(time.Minute) // what is still set comes to nothing
				if len(ended) != 0 {
					t.Error("a stopped clock struck")
				}
			})
		})
	}
}

// Waiting for a turn is no sign of work.
func TestCallClockAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, ended := time.Now(), make(chan time.Duration, 1)
		var c callClock
		c.start(10*time.Second, time.Second, time.Minute, func() { ended <- time.Since(began) })
		defer c.stop()
		time.Sleep(9 * time.Second)
		c.restart()
		if got := <-ended; got != 19*time.Second {
			t.Errorf("ended after %v", got)
		}
	})
}
