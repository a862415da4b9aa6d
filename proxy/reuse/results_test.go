package reuse

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

func keyOf(parts ...string) Key {
	m := NewKey()
	for _, p := range parts {
		m.AddString(p)
	}
	return m.Key()
}

func answer(text string) *mcp.Answer { return &mcp.Answer{Result: []byte(text)} }

// hold makes a call that nobody waits for.
func (r *Results) holds(k Key, principal, text string, ttl time.Duration) {
	f, lead := r.Join(k, time.Now())
	if lead {
		f.End(answer(text), principal, time.Now(), ttl)
	}
}

func TestKeysKeepPartsApart(t *testing.T) {
	seen := map[Key]string{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"a", "b"}, {"ab"}, {"ab", ""}, {"", "ab"}, {"b", "a"}, {"\x00"}} {
		k := keyOf(parts...)
		if before, ok := seen[k]; ok {
			t.Errorf("%q has the key of %s", parts, before)
		}
		seen[k] = fmt.Sprintf("%q", parts)
	}
	m := NewKey()
	m.AddNumber(1)
	if m.Key() != keyOf("\x00\x00\x00\x00\x00\x00\x00\x01") {
		t.Error("a number is another part than its bytes")
	}
}

func TestResultsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Limits{Bytes: 1 << 20, BytesPerPrincipal: 1 << 20, BytesPerResult: 1 << 10})
		r.holds(keyOf("a"), "alice", "first", time.Minute)
		time.Sleep(time.Minute - 1)
		if found, ok := r.Find(keyOf("a"), time.Now()); !ok || string(found.Answer.Result) != "first" || time.Since(found.Made) != time.Minute-1 {
			t.Errorf("before it expires: %v %v", found, ok)
		}
		time.Sleep(time.Nanosecond)
		if _, ok := r.Find(keyOf("a"), time.Now()); ok {
			t.Error("found after it has expired")
		}
		r.holds(keyOf("a"), "alice", "a", time.Minute)
		r.holds(keyOf("b"), "alice", "b", time.Hour)
		time.Sleep(2 * time.Minute)
		r.Sweep(time.Now())
		if n, size := r.Len(); n != 1 || size != 1+overhead {
			t.Errorf("%d results of %d bytes", n, size)
		}
	})
}

// However results come and go, the bounds hold and the sums are right.
func TestResultsAreBounded(t *testing.T) {
	limits := Limits{Bytes: 10_000, BytesPerPrincipal: 4_000, BytesPerResult: 3_000}
	r := New(limits)
	random := rand.New(rand.NewPCG(1, 2))
	for range 5_000 {
		who := fmt.Sprint(random.IntN(5))
		k := keyOf(who, fmt.Sprint(random.IntN(40)))
		r.holds(k, who, strings.Repeat("x", random.IntN(3_500)), time.Duration(random.IntN(3)+1)*time.Hour)
		if random.IntN(50) == 0 {
			r.Sweep(time.Now().Add(90 * time.Minute))
		}
		sum, of := 0, map[string]int{}
		for e := r.order.Front(); e != nil; e = e.Next() {
			h := e.Value.(*held)
			sum += h.size()
			of[h.principal] += h.size()
			if len(h.answer.Result) > limits.BytesPerResult {
				t.Fatalf("holds %d bytes in one result", len(h.answer.Result))
			}
			if of[h.principal] > limits.BytesPerPrincipal {
				t.Fatalf("holds %d bytes of one principal", of[h.principal])
			}
		}
		if sum != r.bytes || sum > limits.Bytes || len(r.all) != r.order.Len() || len(of) != len(r.of) {
			t.Fatalf("holds %d bytes and says %d; %d results and says %d; of %d principals and says %d",
				sum, r.bytes, r.order.Len(), len(r.all), len(of), len(r.of))
		}
		for who, own := range r.of {
			if of[who] != own.bytes {
				t.Fatalf("holds %d bytes of %s and says %d", of[who], who, own.bytes)
			}
		}
	}
	if len(r.inFlight) != 0 {
		t.Errorf("%d calls are left in flight", len(r.inFlight))
	}
}

func TestZeroResultsHoldNothing(t *testing.T) {
	var r Results
	if _, ok := r.Find(keyOf("a"), time.Now()); ok {
		t.Error("found something")
	}
}

// Of equal calls at the same time one is made.
func TestOneInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Limits{Bytes: 1 << 20, BytesPerPrincipal: 1 << 20, BytesPerResult: 1 << 10})
		var made, shared atomic.Int32
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				f, lead := r.Join(keyOf("a"), time.Now())
				if lead {
					made.Add(1)
					time.Sleep(time.Second)
					f.End(answer("one"), "alice", time.Now(), time.Minute)
					return
				}
				if found, ok, err := f.Wait(t.Context()); ok && err == nil && string(found.Answer.Result) == "one" {
					shared.Add(1)
				}
			})
		}
		all.Wait()
		if made.Load() != 1 || shared.Load() != 49 {
			t.Errorf("%d calls were made, %d shared the result", made.Load(), shared.Load())
		}
	})
}

// A call without a result leaves everybody to themselves, and so does an ended context.
func TestInFlightWithoutResult(t *testing.T) {
	r := New(Limits{Bytes: 1 << 20, BytesPerPrincipal: 1 << 20, BytesPerResult: 1 << 10})
	first, _ := r.Join(keyOf("a"), time.Now())
	second, lead := r.Join(keyOf("a"), time.Now())
	if lead {
		t.Fatal("two lead")
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, ok, err := second.Wait(ctx); ok || !errors.Is(err, gone) {
		t.Errorf("ok %v, error %v", ok, err)
	}
	first.End(nil, "alice", time.Now(), time.Minute)
	if _, ok, err := second.Wait(t.Context()); ok || err != nil {
		t.Errorf("ok %v, error %v", ok, err)
	}
	if _, lead := r.Join(keyOf("a"), time.Now()); !lead {
		t.Error("nobody leads after a call without a result")
	}
}

// What is under way when the results are cleared is shared with those who wait already,
// and held for nobody else.
func TestClearDuringFlight(t *testing.T) {
	r := New(Limits{Bytes: 1 << 20, BytesPerPrincipal: 1 << 20, BytesPerResult: 1 << 10})
	r.holds(keyOf("held"), "alice", "old", time.Minute)
	first, _ := r.Join(keyOf("a"), time.Now())
	waits, _ := r.Join(keyOf("a"), time.Now())
	r.Clear()
	next, lead := r.Join(keyOf("a"), time.Now())
	if !lead {
		t.Fatal("a later call joins a call from before")
	}
	first.End(answer("old"), "alice", time.Now(), time.Minute)
	if _, ok, _ := waits.Wait(t.Context()); !ok {
		t.Error("who waited already gets no result")
	}
	if n, size := r.Len(); n != 0 || size != 0 {
		t.Errorf("%d results of %d bytes are held", n, size)
	}
	next.End(answer("new"), "alice", time.Now(), time.Minute)
	if found, ok := r.Find(keyOf("a"), time.Now()); !ok || string(found.Answer.Result) != "new" {
		t.Errorf("%v %v", found, ok)
	}
}

func BenchmarkFind(b *testing.B) {
	r := New(Limits{Bytes: 1 << 20, BytesPerPrincipal: 1 << 20, BytesPerResult: 1 << 10})
	k := keyOf("a")
	r.holds(k, "alice", "text", time.Hour)
	for b.Loop() {
		if _, ok := r.Find(k, time.Now()); !ok {
			b.Fatal("not found")
		}
	}
}
