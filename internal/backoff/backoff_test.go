package backoff

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBackoffWithoutJitter(t *testing.T) {
	tests := []struct {
		name string
		b    Backoff
		want []time.Duration
	}{
		{
			"doubles up to the limit",
			Backoff{Base: time.Second, Max: 5 * time.Second, Factor: 2, Jitter: -1},
			[]time.Duration{1e9, 2e9, 4e9, 5e9, 5e9},
		},
		{
			"factor one stays",
			Backoff{Base: time.Second, Max: 5 * time.Second, Factor: 1, Jitter: -1},
			[]time.Duration{1e9, 1e9, 1e9},
		},
		{
			"a base above the limit is the limit",
			Backoff{Base: time.Minute, Max: time.Second, Factor: 2, Jitter: -1},
			[]time.Duration{1e9, 1e9},
		},
		{
			"a factor that is not a number is two",
			Backoff{Base: time.Second, Max: time.Minute, Factor: math.NaN(), Jitter: -1},
			[]time.Duration{1e9, 2e9},
		},
		{
			"an endless factor is the limit",
			Backoff{Base: time.Second, Max: math.MaxInt64, Factor: math.Inf(1), Jitter: -1},
			[]time.Duration{1e9, math.MaxInt64, math.MaxInt64},
		},
		{
			"the defaults",
			Backoff{Jitter: -1},
			[]time.Duration{5e8, 1e9, 2e9, 4e9, 8e9, 16e9, 30e9, 30e9},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for round := range 2 {
				var got []time.Duration
				for range tt.want {
					got = append(got, tt.b.Next())
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Fatalf("round %d (-want +got):\n%s", round, diff)
				}
				tt.b.Reset()
			}
		})
	}
}

// TestBackoffBounds draws configurations and checks every wait against the one
// without jitter.
func TestBackoffBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b := Backoff{
			Base:   time.Duration(random.Int64N(int64(10 * time.Second))),
			Max:    time.Duration(random.Int64N(int64(10 * time.Minute))),
			Factor: random.Float64() * 4,
			Jitter: random.Float64() * 1.5,
		}
		plain := b
		plain.Jitter = -1
		for attempt := range 40 {
			full, got := plain.Next(), b.Next()
			least := time.Duration(float64(full) * (1 - min(b.Jitter, 1)))
			if got > full || got < least-1 {
				t.Fatalf("%+v attempt %d: %v is not within %v and %v", b, attempt, got, least, full)
			}
			if b.Max > 0 && got > b.Max {
				t.Fatalf("%+v attempt %d: %v is above the limit", b, attempt, got)
			}
		}
	}
}

// TestBackoffSpreads checks that the default takes off up to a half, and does
// not always take off the same.
func TestBackoffSpreads(t *testing.T) {
	lowest, highest := time.Hour, time.Duration(0)
	for range 1000 {
		b := Backoff{Base: time.Second, Max: time.Minute, Factor: 2}
		wait := b.Next()
		lowest, highest = min(lowest, wait), max(highest, wait)
	}
	if lowest < 500*time.Millisecond || highest > time.Second {
		t.Errorf("waits from %v to %v, want all within 500ms and 1s", lowest, highest)
	}
	if lowest > 550*time.Millisecond || highest < 950*time.Millisecond {
		t.Errorf("waits from %v to %v do not spread over 500ms to 1s", lowest, highest)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := Sleep(t.Context(), 3*time.Second); err != nil {
			t.Errorf("sleep = %v", err)
		}
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("slept %v, want 3s", got)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if err := Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("sleep past the deadline = %v", err)
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("slept %v, want 1s", got)
		}
		if err := Sleep(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("sleep with an ended context = %v", err)
		}
		if err := Sleep(t.Context(), -1); err != nil {
			t.Errorf("sleep(-1) = %v", err)
		}
	})
}
