package auth

import (
	"context"
	"errors"
	"sync"
	"time"
)

// flights runs work that several requests wait for, once for all of them. Each
// piece runs in a goroutine of its own, which outlives the request that began
// it, so that a client that goes away spoils nothing for the others; it ends
// within its time or at close. It is safe for concurrent use.
type flights[K comparable, V any] struct {
	limit int           // how many may run at once; the zero flights run nothing
	time  time.Duration // that one may take

	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running map[K]*flight[V]
}

type flight[V any] struct {
	done  chan struct{} // closed once the others are set
	value V
	err   error
}

func newFlights[K comparable, V any](limit int, longest time.Duration) *flights[K, V] {
	life, end := context.WithCancel(context.Background())
	return &flights[K, V]{limit: limit, time: longest, life: life, end: end, running: map[K]*flight[V]{}}
}

var (
	errClosed = errors.New("it is being replaced")
	errBusy   = errors.New("too many questions are open")
)

// start returns the flight of the key that is under way, or begins it. Where
// one would begin, may is asked first, under the lock; nil allows.
func (f *flights[K, V]) start(key K, may func() error, work func(context.Context) (V, error)) (*flight[V], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if running, ok := f.running[key]; ok {
		return running, nil
	}
	switch {
	case f.closed:
		return nil, unavailable(errClosed)
	case len(f.running) >= f.limit:
		return nil, unavailable(errBusy)
	case may != nil:
		if err := may(); err != nil {
			return nil, err
		}
	}
	begun := &flight[V]{done: make(chan struct{})}
	f.running[key] = begun
	f.wg.Go(func() {
		ctx, cancel := context.WithTimeout(f.life, f.time)
		defer cancel()
		begun.value, begun.err = work(ctx)
		f.mu.Lock()
		delete(f.running, key)
		f.mu.Unlock()
		close(begun.done)
	})
	return begun, nil
}

// wait returns what the flight brings, or gives up with the context.
func (x *flight[V]) wait(ctx context.Context) (V, error) {
	select {
	case <-x.done:
		return x.value, x.err
	case <-ctx.Done():
		var none V
		return none, unavailable(context.Cause(ctx))
	}
}

// close ends what is under way and waits for it. Nothing begins afterwards.
func (f *flights[K, V]) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.end()
	f.wg.Wait()
}
