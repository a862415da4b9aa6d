package auth

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// callGroup runs work once for all requests that wait for it. Each call runs in a
// goroutine of its own and outlives the request that began it, so that a client that
// disconnects does not affect the others. It ends with its timeout, or at close. It is
// safe for concurrent use.
type callGroup[V any] struct {
	limit int           // concurrent calls; the zero callGroup runs none
	time  time.Duration // timeout of one call

	life  context.Context
	end   context.CancelFunc
	group singleflight.Group
	wg    sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running int
}

// sharedCall is a call under way; it delivers one result.
type sharedCall[V any] <-chan singleflight.Result

func newCallGroup[V any](limit int, longest time.Duration) *callGroup[V] {
	life, end := context.WithCancel(context.Background())
	return &callGroup[V]{limit: limit, time: longest, life: life, end: end}
}

var (
	errClosed = errors.New("it is being replaced")
	errBusy   = errors.New("too many questions are open")
)

// start joins the call with this key, or begins it. Before it begins one it asks may;
// nil allows it.
func (f *callGroup[V]) start(key string, may func() error, work func(context.Context) (V, error)) sharedCall[V] {
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

// begin reserves room for a call, or returns why there is none.
func (f *callGroup[V]) begin(may func() error) error {
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

// wait returns the result of the call, or the error of the context.
func (x sharedCall[V]) wait(ctx context.Context) (V, error) {
	select {
	case got := <-x:
		value, _ := got.Val.(V) // zero with an error
		return value, got.Err
	case <-ctx.Done():
		var none V
		return none, unavailable(context.Cause(ctx))
	}
}

// close cancels the calls under way and waits for them. No call begins afterwards.
func (f *callGroup[V]) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.end()
	f.wg.Wait()
}
