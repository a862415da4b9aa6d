package limit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/proxy/refusal"
)

// A principal at its limit delays nobody else at any server, and its own calls keep
// their order.
func TestCallsPerPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewPrincipals()
		c.Resize(2)
		a, b, j := NewConcurrency(4, 100, c), NewConcurrency(4, 100, c), &journal{}
		take := func(s *Concurrency, at, who string) {
			go func() {
				err := s.Acquire(t.Context(), at, who)
				if refused, ok := errors.AsType[*refusal.Error](err); ok {
					j.add("%s at %s: %v", who, at, refused.Kind)
				} else {
					j.add("%s at %s", who, at)
				}
			}()
			synctest.Wait()
		}
		take(a, "a", "greedy")
		take(a, "a", "greedy")
		take(a, "a", "greedy") // waits
		take(b, "b", "greedy") // at another server too
		take(a, "a", "modest") // passes
		take(b, "b", "modest")
		want := []string{"greedy at a", "greedy at a", "modest at a", "modest at b"}
		if !slices.Equal(j.all(), want) {
			t.Fatalf("%q, want %q", j.all(), want)
		}
		a.Release("greedy")
		synctest.Wait()
		a.Release("greedy")
		synctest.Wait()
		want = append(want, "greedy at a", "greedy at b")
		if !slices.Equal(j.all(), want) {
			t.Fatalf("%q, want %q", j.all(), want)
		}
		take(a, "a", "greedy")
		time.Sleep(queueTime)
		synctest.Wait()
		if last := j.all()[len(j.all())-1]; last != "greedy at a: too_many_calls" {
			t.Errorf("after its time a waiting call is %q", last)
		}
		c.Resize(0)
		take(a, "a", "greedy") // zero means no limit
		for range 2 {
			a.Release("greedy")
			b.Release("modest")
			a.Release("modest")
			b.Release("greedy")
		}
	})
}

// A call does not overtake earlier ones of the same principal, even between the end of
// one and the next grant.
func TestOwnCallsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewPrincipals()
		c.Resize(1)
		s, j := NewConcurrency(4, 100, c), &journal{}
		queued(t.Context(), s, j, "p")
		take := func(name string) {
			go func() {
				if s.Acquire(t.Context(), "s", "p") == nil {
					j.add("%s", name)
				}
			}()
			synctest.Wait()
		}
		take("second")
		s.mu.Lock()
		s.running--
		also := c.leave("p")
		s.mu.Unlock()
		take("third")
		for _, other := range also {
			other.recheck()
		}
		synctest.Wait()
		if got := j.all(); !slices.Equal(got, []string{"p", "second"}) {
			t.Errorf("served %q, want the second behind the first", got)
		}
		s.Release("p")
		synctest.Wait()
		if got := j.all(); len(got) != 3 {
			t.Errorf("served %q, want all", got)
		}
	})
}

// However calls come, go and give up at several servers: no principal exceeds its
// limit, every call that can run does, and in the end nothing is left.
func TestCallsPerPrincipalBounds(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 3))
		most := 1 + random.IntN(3)
		synctest.Test(t, func(t *testing.T) {
			c := NewPrincipals()
			c.Resize(most)
			at := []*Concurrency{NewConcurrency(1+random.IntN(3), 50, c), NewConcurrency(1+random.IntN(3), 50, c), NewConcurrency(1+random.IntN(3), 50, c)}
			var running [3]atomic.Int64
			var served atomic.Int64
			var all sync.WaitGroup
			for i := range 300 {
				who, s := random.IntN(3), at[random.IntN(3)]
				patience := time.Duration(1+random.IntN(60)) * time.Millisecond
				work := time.Duration(random.IntN(10)) * time.Millisecond
				start := time.Duration(i/2) * time.Millisecond
				all.Go(func() {
					time.Sleep(start)
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					if s.Acquire(ctx, "s", fmt.Sprint(who)) != nil {
						return
					}
					served.Add(1)
					if n := running[who].Add(1); n > int64(most) {
						t.Errorf("%d of one principal run, want at most %d", n, most)
					}
					time.Sleep(work)
					running[who].Add(-1)
					s.Release(fmt.Sprint(who))
				})
			}
			all.Wait()
			if served.Load() == 0 || len(c.running) != 0 || len(c.waiting) != 0 {
				t.Errorf("served %d; left behind %v, %v", served.Load(), c.running, c.waiting)
			}
			for _, s := range at {
				if s.running != 0 || s.waiting != 0 || len(s.order) != 0 || len(s.calls) != 0 {
					t.Errorf("left behind: running %d, waiting %d, %v, %v", s.running, s.waiting, s.order, s.calls)
				}
			}
		})
	}
}

// With free permits of a server and a principal no call waits.
func TestNobodyWaitsInVain(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 4))
		synctest.Test(t, func(t *testing.T) {
			c := NewPrincipals()
			c.Resize(2)
			at := []*Concurrency{NewConcurrency(2, 50, c), NewConcurrency(3, 50, c)}
			var begun atomic.Int64
			var held []func()
			for range 60 {
				who, s := fmt.Sprint(random.IntN(3)), at[random.IntN(2)]
				if len(held) > 0 && random.IntN(2) == 0 {
					i := random.IntN(len(held))
					held[i]()
					held = slices.Delete(held, i, i+1)
				}
				release := make(chan struct{})
				held = append(held, func() { close(release) })
				go func() {
					if s.Acquire(t.Context(), "s", who) == nil {
						begun.Add(1)
						<-release
						s.Release(who)
					}
				}()
				synctest.Wait()
				for _, s := range at {
					for principal := range s.calls {
						if s.running < s.size && c.running[principal] < 2 {
							t.Fatalf("seed %d: %s waits, %d of %d run there and %d of its own", seed, principal, s.running, s.size, c.running[principal])
						}
					}
				}
			}
			for _, release := range held {
				release()
			}
			synctest.Wait()
			if begun.Load() != 60 {
				t.Errorf("%d of 60 calls were served", begun.Load())
			}
		})
	}
}
