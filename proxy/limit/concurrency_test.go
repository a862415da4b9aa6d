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

// errLeft is why a caller leaves.
var errLeft = errors.New("the caller left")

// journal records events in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// queued asks for a permit in the background and records its principal when it gets
// one.
func queued(ctx context.Context, s *Concurrency, j *journal, principal string) {
	go func() {
		if err := s.Acquire(ctx, "s", principal); err == nil {
			j.add("%s", principal)
		}
	}()
	synctest.Wait()
}

// A principal with many waiting calls does not delay others: each has its turn, and its
// own calls keep their order.
func TestConcurrencyIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, j := NewConcurrency(1, 100, nil), &journal{}
		if err := s.Acquire(t.Context(), "s", "first"); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{"a", "a", "a", "a", "b", "b", "c"} {
			queued(t.Context(), s, j, p)
		}
		for range 7 {
			s.Release("")
			synctest.Wait()
		}
		if want := []string{"a", "b", "c", "a", "b", "a", "a"}; !slices.Equal(j.all(), want) {
			t.Errorf("served %v, want %v", j.all(), want)
		}
	})
}

// Nobody overtakes waiting calls.
func TestConcurrencyKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, j := NewConcurrency(1, 100, nil), &journal{}
		_ = s.Acquire(t.Context(), "s", "a")
		queued(t.Context(), s, j, "b")
		s.Release("") // b has it now
		queued(t.Context(), s, j, "c")
		s.Release("")
		synctest.Wait()
		if want := []string{"b", "c"}; !slices.Equal(j.all(), want) {
			t.Errorf("served %v, want %v", j.all(), want)
		}
	})
}

// A queue filled by one principal has room for another, and nobody waits in it for
// ever.
func TestConcurrencyMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewConcurrency(1, 4, nil)
		_ = s.Acquire(t.Context(), "s", "a")
		ends := make(chan string, 10)
		wait := func(who string) {
			go func() {
				if err := s.Acquire(t.Context(), "s", who); err != nil {
					ends <- who + " refused"
					return
				}
				ends <- who
			}()
			synctest.Wait()
		}
		for range 4 {
			wait("a")
		}
		wait("b")
		if got := <-ends; got != "a refused" {
			t.Fatalf("for b: %s", got)
		}
		s.Release("")
		s.Release("")
		if got := []string{<-ends, <-ends}; !slices.Contains(got, "a") || !slices.Contains(got, "b") {
			t.Errorf("served %v", got)
		}
		time.Sleep(queueTime + time.Second)
		synctest.Wait()
		for range 2 {
			if got := <-ends; got != "a refused" {
				t.Errorf("after the longest wait: %s", got)
			}
		}
	})
}

func TestConcurrencyGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, j := NewConcurrency(1, 2, nil), &journal{}
		_ = s.Acquire(t.Context(), "s", "a")
		ctx, cancel := context.WithCancelCause(t.Context())
		refused := make(chan error, 1)
		go func() {
			err := s.Acquire(ctx, "s", "a")
			refused <- err
		}()
		synctest.Wait()
		queued(t.Context(), s, j, "b")
		var full *refusal.Error
		if err := s.Acquire(t.Context(), "s", "c"); !errors.As(err, &full) || full.Kind != "upstream_busy" {
			t.Errorf("with the queue full: %v", err)
		}
		cancel(errLeft)
		if err := <-refused; !errors.Is(err, errLeft) {
			t.Errorf("given up: %v, want the cause", err)
		}
		queued(t.Context(), s, j, "c") // there is room in the queue again
		for range 2 {
			s.Release("")
			synctest.Wait()
		}
		if want := []string{"b", "c"}; !slices.Equal(j.all(), want) {
			t.Errorf("served %v, want %v", j.all(), want)
		}
		s.Release("")
		if s.running != 0 || s.waiting != 0 || len(s.order) != 0 || len(s.calls) != 0 {
			t.Errorf("left behind: %+v", s)
		}
	})
}

func TestConcurrencyResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, j := NewConcurrency(1, 10, nil), &journal{}
		for _, p := range []string{"a", "b", "c", "d"} {
			queued(t.Context(), s, j, p)
		}
		s.Resize(3, 10)
		synctest.Wait()
		if want := []string{"a", "b", "c"}; !slices.Equal(slices.Sorted(slices.Values(j.all())), want) {
			t.Errorf("with three places %v run, want %v", j.all(), want)
		}
		s.Resize(1, 10)
		s.Release("")
		s.Release("")
		synctest.Wait()
		if len(j.all()) != 3 {
			t.Errorf("with one place again, %v run", j.all())
		}
		s.Release("")
		synctest.Wait()
		if len(j.all()) != 4 {
			t.Errorf("the last one waits for ever: %v", j.all())
		}
	})
	if s := NewConcurrency(0, 0, nil); s.size != 32 || s.queue != 256 {
		t.Errorf("defaults %d and %d, want 32 and 256", s.size, s.queue)
	}
}

// However calls come, go and give up: never more run than there are permits, never more
// wait than the queue holds, and in the end nothing is left.
func TestConcurrencyBounds(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		size, queue := 1+random.IntN(4), 1+random.IntN(8)
		synctest.Test(t, func(t *testing.T) {
			s := NewConcurrency(size, queue, nil)
			var running, most, served, refused, left atomic.Int64
			var all sync.WaitGroup
			for i := range 300 {
				principal := fmt.Sprint("p", random.IntN(3))
				patience := time.Duration(1+random.IntN(40)) * time.Millisecond
				work := time.Duration(random.IntN(10)) * time.Millisecond
				start := time.Duration(i/2) * time.Millisecond
				all.Go(func() {
					time.Sleep(start)
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					err := s.Acquire(ctx, "s", principal)
					s.mu.Lock()
					if s.running > size || s.waiting > queue {
						t.Errorf("%d run and %d wait, with %d places and a queue of %d", s.running, s.waiting, size, queue)
					}
					s.mu.Unlock()
					switch {
					case err == nil:
						served.Add(1)
						most.Store(max(most.Load(), running.Add(1)))
						time.Sleep(work)
						running.Add(-1)
						s.Release("")
					case errors.Is(err, context.DeadlineExceeded):
						left.Add(1)
					default:
						refused.Add(1)
					}
				})
			}
			all.Wait()
			if most.Load() > int64(size) || served.Load()+refused.Load()+left.Load() != 300 || served.Load() == 0 {
				t.Errorf("%d at once with %d places; %d served, %d refused, %d left", most.Load(), size, served.Load(), refused.Load(), left.Load())
			}
			if s.running != 0 || s.waiting != 0 || len(s.order) != 0 || len(s.calls) != 0 {
				t.Errorf("left behind: running %d, waiting %d, %v, %v", s.running, s.waiting, s.order, s.calls)
			}
		})
	}
}

// With a throttle, a server runs half as many calls and at least one, or lets none
// wait; waiting calls are refused.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewConcurrency(4, 10, nil)
		s.Throttle(Throttle{Halve: true})
		j := &journal{}
		for range 3 {
			queued(t.Context(), s, j, "a")
		}
		if n := len(j.all()); n != 2 {
			t.Errorf("%d calls run, want 2", n)
		}
		refused := make(chan error, 1)
		go func() { // ends with the throttle
			refused <- s.Acquire(t.Context(), "s", "b")
		}()
		synctest.Wait()
		s.Throttle(Throttle{NoQueue: true})
		synctest.Wait()
		if err := <-refused; err == nil {
			t.Error("a call that waited was not refused")
		}
		if s.waiting != 0 || len(s.order) != 0 || s.running != 2 {
			t.Errorf("%d wait, %d run", s.waiting, s.running)
		}
		for range 2 { // of the whole four
			if err := s.Acquire(t.Context(), "s", "a"); err != nil {
				t.Error(err)
			}
		}
		if err := s.Acquire(t.Context(), "s", "c"); err == nil {
			t.Error("a call waits")
		}
		s.Throttle(Throttle{})
		s.Resize(1, 5)
		s.Throttle(Throttle{Halve: true})
		if s.size != 1 {
			t.Errorf("half of one is %d", s.size)
		}
	})
}
