//go:build !windows

package redis_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/budget/redis"
	"github.com/toolgate/toolgate/budget/redis/redistest"
	"github.com/toolgate/toolgate/internal/testwait"
)

// A server that hangs delays nobody for long: budgets deny, rates use the gateway's own
// buckets, and both use the server again when it continues.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	quick := clientWithin(t, server.Address(), redis.Timeouts{Rates: 300 * time.Millisecond, Budgets: 300 * time.Millisecond})
	epochs := new(memory)
	s := client(t, server.Address()).Budgets(epochs)
	m := rate.NewMeter(rate.NewLocal(0), quick.Rates(), nil)
	l := m.Limiter([]rate.Rule{{Name: "r", Per: []rate.Dimension{rate.PerTenant}, Rate: rate.Rate{Limit: 1000, Window: 24 * time.Hour}}})
	if err := charged(t, s, "a"); err != nil {
		t.Fatal(err)
	}
	if err := l.Take(t.Context(), &rate.Call{}); err != nil {
		t.Fatal(err)
	}
	server.Freeze(t)
	defer server.Thaw(t)
	frozen, began := quick.Budgets(epochs), time.Now()
	var all sync.WaitGroup
	const waiters = 50
	for i := range waiters { // those that wait for their turn behind one that is not answered as well
		all.Go(func() {
			if err := charged(t, frozen, fmt.Sprint("b", i)); err == nil {
				t.Error("granted by a server that says nothing")
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("waited %v for a server that says nothing", took)
	}
	for range 100 { // of which one waits for it
		if err := l.Take(t.Context(), &rate.Call{}); err != nil {
			t.Fatal(err)
		}
	}
	if !m.Down() {
		t.Error("the server does not count as down")
	}
	server.Thaw(t)
	i := 0
	testwait.Until(t, patience, "calls are granted again", func() bool {
		i++
		if err := l.Take(t.Context(), &rate.Call{Tenant: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		return !m.Down() && charged(t, s, "c") == nil
	})
	if got := usedOf(t, s); got < 2 || got > 2+waiters { // those may have been executed when it went on
		t.Errorf("used %d, want 2, and at most %d with the charges that nobody waited for", got, 2+waiters)
	}
}
