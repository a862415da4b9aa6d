package store

import (
	"context"
	"sync"
	"sync/atomic"
)

// defaultQueue is the default of [Options.Queue].
const defaultQueue = 4096

// States of a write. Whoever moves it out of waiting owns the next step. So a caller
// that stops waiting knows that nothing was or will be written.
const (
	stateWaiting int32 = iota
	stateTaken
	stateAbandoned
)

// write is one queued write.
type write struct {
	fn     func(ctx context.Context, tx *Tx) error
	waited bool // a caller waits for done
	state  atomic.Int32
	done   chan struct{} // closed when err is final
	err    error
}

func newWrite(fn func(context.Context, *Tx) error, waited bool) *write {
	return &write{fn: fn, waited: waited, done: make(chan struct{})}
}

// finish reports the outcome of a taken write.
func (w *write) finish(err error) {
	w.err = err
	close(w.done)
}

// writer is the queue in front of the writing connection.
type writer struct {
	slots   chan struct{} // one token per queued write, as the bound
	wake    chan struct{} // signals that the queue has changed
	turn    chan struct{} // held by the user of the writing connection
	closing chan struct{} // closed by close

	// mu guards the fields below. It is never held during a commit.
	mu      sync.Mutex
	queue   []*write
	urgent  int           // queued writes with a waiting caller
	running chan struct{} // closed when Run has ended; nil while it is not running
	closed  bool

	stats stats
}

// stats are counters for [Store.Stats].
type stats struct {
	writes, batches, failed atomic.Uint64
}

func (q *writer) init(size int) {
	if size <= 0 {
		size = defaultQueue
	}
	q.slots = make(chan struct{}, size)
	q.wake = make(chan struct{}, 1)
	q.turn = make(chan struct{}, 1)
	q.closing = make(chan struct{})
}

// push queues w. It waits for room until ctx ends, or not at all if nobody waits for w.
// When Run is not running, push returns direct, and the caller must commit w.
func (q *writer) push(ctx context.Context, w *write) (direct bool, err error) {
	if w.waited {
		select {
		case q.slots <- struct{}{}:
		case <-ctx.Done():
			return false, ctx.Err()
		case <-q.closing:
			return false, ErrClosed
		}
	} else {
		select {
		case q.slots <- struct{}{}:
		default:
			return false, ErrQueueFull
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.running == nil {
		<-q.slots
		if q.closed {
			return false, ErrClosed
		}
		return true, nil
	}
	q.queue = append(q.queue, w)
	if w.waited {
		q.urgent++
	}
	q.hint()
	return false, nil
}

// hint wakes Run if it sleeps.
func (q *writer) hint() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// pending returns the number of queued writes, and of those with a waiting caller.
func (q *writer) pending() (queued, urgent int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue), q.urgent
}

// take removes up to limit writes from the queue. It drops writes whose caller has
// given up.
func (q *writer) take(limit int) []*write {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(limit, len(q.queue))
	batch := make([]*write, 0, n)
	for _, w := range q.queue[:n] {
		if w.waited {
			q.urgent--
		}
		<-q.slots
		if w.state.CompareAndSwap(stateWaiting, stateTaken) {
			batch = append(batch, w)
		}
	}
	rest := copy(q.queue, q.queue[n:])
	clear(q.queue[rest:]) // release the references
	q.queue = q.queue[:rest]
	return batch
}

// start marks Run as running. It returns false when Run is running already or the store
// is closed.
func (q *writer) start() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.running != nil {
		return false
	}
	q.running = make(chan struct{})
	return true
}

// stopIfEmpty ends the running state if the queue is empty. Both happen under one lock,
// so that no write is left behind.
func (q *writer) stopIfEmpty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) > 0 {
		return false
	}
	close(q.running)
	q.running = nil
	return true
}

// isClosed reports whether close was called.
func (q *writer) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// close refuses further writes, waits for Run to drain and for a running commit, and
// keeps the turn for ever.
func (q *writer) close() {
	q.mu.Lock()
	q.closed = true
	running := q.running
	q.mu.Unlock()
	close(q.closing)
	if running != nil {
		<-running
	}
	q.turn <- struct{}{}
}
