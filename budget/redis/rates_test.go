package redis_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/budget/redis"
	"github.com/toolgate/toolgate/budget/redis/redistest"
	"github.com/toolgate/toolgate/internal/testwait"
)

func client(t *testing.T, address string) *redis.Client {
	t.Helper()
	return clientWithin(t, address, redis.Timeouts{Rates: time.Minute, Budgets: time.Minute}) // whatever else the machine does
}

func clientWithin(t *testing.T, address string, timeouts redis.Timeouts) *redis.Client {
	t.Helper()
	c, err := redis.New(address, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = time.Minute

func hour(bucket, key string, limit int64) rate.Token {
	return rate.Token{Bucket: bucket, Key: key, Rate: rate.Rate{Limit: limit, Window: time.Hour}}
}

// Replicas together never exceed the rate, and use all of it.
func TestReplicasShareARate(t *testing.T) {
	t.Parallel()
	const limit, replicas, callers, tries = 100, 3, 20, 17
	s := redistest.Start(t)
	var taken atomic.Int64
	var all sync.WaitGroup
	for range replicas {
		m := rate.NewMeter(rate.NewLocal(0), client(t, s.Address()).Rates(), func(_ bool, err error) { t.Error("told:", err) })
		l := m.Limiter([]rate.Rule{{Name: "r", Per: []rate.Dimension{rate.PerTenant}, Rate: rate.Rate{Limit: limit, Window: 24 * time.Hour}}})
		for c := range callers {
			all.Go(func() {
				for range tries {
					if l.Take(t.Context(), &rate.Call{Tenant: "acme", Principal: fmt.Sprint(c)}) == nil {
						taken.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	if taken.Load() != limit {
		t.Errorf("%d calls of %d were let pass, want %d", taken.Load(), replicas*callers*tries, limit)
	}
}

// All buckets are charged, or none.
func TestSharedTakesAllOrNone(t *testing.T) {
	t.Parallel()
	r := client(t, redistest.Start(t).Address()).Rates()
	take := func(want int, tokens ...rate.Token) time.Duration {
		t.Helper()
		refused, wait, err := r.Take(t.Context(), tokens)
		if err != nil || refused != want {
			t.Fatalf("refused %d after %v, %v; want %d", refused, wait, err, want)
		}
		return wait
	}
	take(-1, hour("a", "k", 1), hour("b", "k", 2))
	if wait := take(0, hour("a", "k", 1), hour("b", "k", 2)); wait <= 59*time.Minute || wait > time.Hour {
		t.Errorf("wait %v for the one of the hour", wait)
	}
	for range 2 { // to look takes nothing
		if refused, _, err := r.Wait(t.Context(), []rate.Token{hour("b", "k", 2)}); err != nil || refused != -1 {
			t.Errorf("looked: %d, %v", refused, err)
		}
		if refused, wait, err := r.Wait(t.Context(), []rate.Token{hour("b", "k", 2), hour("a", "k", 1)}); err != nil || refused != 1 || wait <= 59*time.Minute {
			t.Errorf("looked: %d after %v, %v", refused, wait, err)
		}
	}
	take(1, hour("b", "other", 2), hour("a", "k", 1))
	take(-1, hour("b", "k", 2))
	if wait := take(0, hour("b", "k", 2)); wait <= 29*time.Minute || wait > 30*time.Minute {
		t.Errorf("wait %v for one of two in the hour", wait)
	}
	take(-1, hour("b", "other", 2), hour("c", "k", 1)) // what was refused took nothing
	take(-1, hour("b", "other", 2))
	short := rate.Token{Bucket: "a", Key: "k", Rate: rate.Rate{Limit: 1, Window: time.Second}}
	if _, wait, err := r.Take(t.Context(), []rate.Token{short}); err != nil || wait > time.Second {
		t.Errorf("who owed an hour owes %v with a window of a second, %v", wait, err)
	}
	testwait.Until(t, patience, "it has the rate", func() bool {
		refused, _, err := r.Take(t.Context(), []rate.Token{short})
		return err == nil && refused < 0
	})
	if _, _, err := r.Take(t.Context(), []rate.Token{{Bucket: "a", Key: "k"}}); err == nil {
		t.Error("a rate of nothing was asked for")
	}
}

// The script computes the same as the local buckets.
func TestSharedIsAsLocal(t *testing.T) {
	t.Parallel()
	r, l := client(t, redistest.Start(t).Address()).Rates(), rate.NewLocal(0)
	for i := range 400 {
		tokens := []rate.Token{hour(fmt.Sprint("a", i%3), fmt.Sprint(i%5), 7), hour("b", fmt.Sprint(i%7), 11)}
		if i%2 == 1 { // windows, beside the buckets of the same names
			tokens[0].Rate.Kind, tokens[1].Rate.Kind = rate.Sliding, rate.Sliding
		}
		want, wantWait := l.Take(tokens...)
		got, gotWait, err := r.Take(t.Context(), tokens)
		if off := (gotWait - wantWait).Abs(); err != nil || got != want || off > 20*time.Second {
			t.Fatalf("step %d: refused %d for %v, %v; local %d for %v", i, got, gotWait, err, want, wantWait)
		}
	}
}

// Whatever happens to the server, calls are limited by the gateway's own buckets
// meanwhile, and by the shared ones afterwards.
func TestRatesOutliveTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	told := make(chan bool, 100)
	m := rate.NewMeter(rate.NewLocal(0), client(t, s.Address()).Rates(), func(up bool, _ error) { told <- up })
	l := m.Limiter([]rate.Rule{{Name: "r", Per: []rate.Dimension{rate.PerTenant}, Rate: rate.Rate{Limit: 40, Window: 24 * time.Hour}}})
	taken := 0
	take := func(n int) {
		for range n {
			if l.Take(t.Context(), &rate.Call{}) == nil {
				taken++
			}
		}
	}
	back := func() { // one call a second finds out
		t.Helper()
		i := 0
		testwait.Until(t, patience, "the server counts as up", func() bool {
			i++
			_ = l.Take(t.Context(), &rate.Call{Tenant: fmt.Sprint("other", i)})
			return !m.Down()
		})
	}
	take(10)
	s.Kill(t)
	take(10)
	if up := <-told; up {
		t.Error("told that the server answers")
	}
	s.Restart(t)
	back()
	if up := <-told; !up {
		t.Error("told that the server does not answer")
	}
	take(100)
	if taken != 40 {
		t.Errorf("%d calls were let pass, want 40", taken)
	}
}

// A call whose caller has left tells nothing about the server.
func TestRatesOfACallerWhoLeft(t *testing.T) {
	t.Parallel()
	m := rate.NewMeter(rate.NewLocal(0), client(t, redistest.Start(t).Address()).Rates(), func(_ bool, err error) { t.Error("told:", err) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = m.Limiter([]rate.Rule{{Name: "r", Rate: rate.Rate{Limit: 1, Window: time.Hour}}}).Take(ctx, &rate.Call{})
	if m.Down() {
		t.Error("the server counts as down")
	}
}

func TestBadAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"http://h", "redis://u:hunter2@h:99999999/x", "redis://h:1/x", "\x00"} {
		if c, err := redis.New(address, redis.Timeouts{}); err == nil {
			c.Close()
			t.Errorf("%q is taken for an address", address)
		}
	}
}
