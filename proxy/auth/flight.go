package auth

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// flights runs work that several requests wait for, once for all of them. Each
// piece runs in a goroutine of its own, which outlives the request that began
// it, so that a client that goes away spoils nothing for the others; it ends
// within its time or at close. It is safe for concurrent use.
type flights[V any] struct {
	limit int           // how many may run at once; the zero flights run nothing
	time  time.Duration // that one may take

	life  context.Context
	end   context.CancelFunc
	group singleflight.Group
	wg    sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running int
}

// flight is work under way, which ends with one result.
type flight[V any] <-chan singleflight.Result

func newFlights[V any](limit int, longest time.Duration) *flights[V] {
	life, end := context.WithCancel(context.Background())
	return &flights[V]{limit: limit, time: longest, life: life, end: end}
}

var (
	errClosed = errors.New("it is being replaced")
	errBusy   = errors.New("too many questions are open")
)

// start joins the flight of the key that is under way, or begins it. Where one
// would begin, may is asked first; nil allows.
func (f *flights[V]) start(key string, may func() error, work func(context.Context) (V, error)) flight[V] {
	return f.group.DoChan(key, func() (any, error) {
		if err := f.begin(may); err != nil {
			return nil, err
		}
		defer f.wg.Done()
		defer func() {
			f.mu.Lock()
			f.running--
			f.mu.Unlock()
		}()
		ctx, cancel := context.WithTimeout(f.life, f.time)
		defer cancel()
		return work(ctx)
	})
}

// begin takes a place for a flight, or tells why there is none.
func (f *flights[V]) begin(may func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return unavailable(errClosed)
	case f.running >= f.limit:
		return unavailable(errBusy)
	case may != nil:
		if err := may(); err != nil {
			return err
		}
	}
	f.running++
	f.wg.Add(1)
	return nil
}

// wait returns what the flight brings, or gives up with the context.
func (x flight[V]) wait(ctx context.Context) (V, error) {
	select {
	case got := <-x:
		value, _ := got.Val.(V) // none with an error
		return value, got.Err
	case <-ctx.Done():
		var none V
		return none, unavailable(context.Cause(ctx))
	}
}

// close ends what is under way and waits for it. Nothing begins afterwards.
func (f *flights[V]) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.end()
	f.wg.Wait()
}
