package rate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
)

func sliding(key string, limit int64, window time.Duration) rate.Token {
	return rate.Token{Bucket: "b", Key: key, Rate: rate.Rate{Limit: limit, Window: window, Kind: rate.Sliding}}
}

// A window takes its limit at once, and then nothing until the first of them leaves it.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rate.NewLocal(0)
		a := sliding("k", 3, time.Hour)
		for i, at := range []time.Duration{0, 10 * time.Minute, 20 * time.Minute} { // after the one before
			time.Sleep(at)
			if refused, _ := l.Take(a); refused >= 0 {
				t.Fatalf("call %d was refused", i)
			}
		}
		refused, wait := l.Take(a) // 30 minutes after the first
		if refused != 0 || wait != 30*time.Minute {
			t.Fatalf("refused %d for %v, want 0 for 30m", refused, wait)
		}
		time.Sleep(wait - time.Microsecond)
		if refused, wait := l.Wait(a); refused != 0 || wait != time.Microsecond {
			t.Errorf("a moment before: refused %d for %v", refused, wait)
		}
		time.Sleep(time.Microsecond)
		if refused, _ := l.Take(a); refused >= 0 {
			t.Error("refused when it was time")
		}
		if _, wait := l.Wait(a); wait != 10*time.Minute {
			t.Errorf("the next one waits for %v, want 10m", wait)
		}
		l.Return(a)
		if refused, _ := l.Take(a); refused >= 0 {
			t.Error("a call that was given back still counts")
		}
	})
}

// No window of the length has more calls than the limit, wherever it begins, and a call
// waits at most a sixtieth of the window longer than that needs.
func TestNeverMoreInAnyWindow(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 3))
		length := time.Second + time.Duration(random.Int64N(int64(time.Hour)))
		limit := 1 + random.Int64N(90)
		pause := int64(length)/limit*2 + 1
		synctest.Test(t, func(t *testing.T) {
			l := rate.NewLocal(1 + random.IntN(4)) // few, so that windows are shared and forgotten
			taken := make(map[string][]time.Time)
			for range 900 {
				key := fmt.Sprint(random.IntN(6))
				refused, wait := l.Take(sliding(key, limit, length))
				switch times := taken[key]; {
				case refused < 0:
					taken[key] = append(times, time.Now())
				case wait <= 0 || wait > length:
					t.Fatalf("seed %d: a wait of %v in a window of %v", seed, wait, length)
				}
				if random.IntN(8) > 0 {
					time.Sleep(time.Duration(random.Int64N(pause)))
				}
			}
			for key, times := range taken {
				for i := int(limit); i < len(times); i++ {
					if within := times[i].Sub(times[i-int(limit)]); within < length {
						t.Fatalf("seed %d, key %s: %d calls in %v, want at most %d in %v", seed, key, limit+1, within, limit, length)
					}
				}
			}
		})
	}
}

// A caller alone is refused only when the window is full, but for the calls of one group.
func TestWindowIsUsedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, length = 100, time.Hour
		l := rate.NewLocal(0)
		random := rand.New(rand.NewPCG(1, 4))
		var times []time.Time
		for range 3000 {
			if refused, _ := l.Take(sliding("k", limit, length)); refused < 0 {
				times = append(times, time.Now())
			} else if n := len(times); n < limit || time.Since(times[n-limit]) >= length+length/60 {
				t.Fatalf("refused, and the window has had room for more than a minute")
			}
			time.Sleep(time.Duration(random.Int64N(int64(time.Minute))))
		}
	})
}

// A smaller limit counts what was used; another kind begins a new count.
func TestChangedWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rate.NewLocal(0)
		for range 5 {
			l.Take(sliding("k", 5, time.Hour))
			time.Sleep(time.Minute)
		}
		if refused, wait := l.Wait(sliding("k", 2, time.Hour)); refused != 0 || wait != 58*time.Minute {
			t.Errorf("with a smaller limit: refused %d for %v, want 0 for 58m", refused, wait)
		}
		if refused, _ := l.Wait(sliding("k", 6, time.Hour)); refused >= 0 {
			t.Error("refused with a larger limit")
		}
		if refused, _ := l.Wait(token("b", "k", 1, time.Hour)); refused >= 0 {
			t.Error("a bucket counts what was of a window")
		}
		l.Keep(func(string) bool { return false })
		if n := l.Len(); n != 0 {
			t.Errorf("%d are kept of limits that are gone", n)
		}
	})
}

func BenchmarkTake(b *testing.B) {
	for _, kind := range []rate.Kind{rate.Bucket, rate.Sliding} {
		b.Run(string(kind), func(b *testing.B) {
			l := rate.NewLocal(0)
			t := rate.Token{Bucket: "b", Key: "k", Rate: rate.Rate{Limit: rate.MaxLimit, Window: time.Second, Kind: kind}}
			b.ReportAllocs()
			for b.Loop() {
				l.Take(t)
			}
		})
	}
}
