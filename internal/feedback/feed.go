package feedback

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
)

const (
	// maxWaiting bounds the events that wait for a receiver, maxBatch those of one
	// batch. batchPause is how long the first of a batch waits at most.
	maxWaiting = 10_000
	maxBatch   = 500
	batchPause = time.Second
	// sendTime bounds one attempt, tries is the number of attempts for a batch.
	// leastPause and mostPause bound the pause between them, which doubles.
	sendTime   = 10 * time.Second
	tries      = 8
	leastPause = 500 * time.Millisecond
	mostPause  = 30 * time.Second
	// lastTime bounds the sending at the end.
	lastTime = 5 * time.Second
)

// Receiver takes batches of events.
type Receiver interface {
	// Send delivers a batch, whose id is the same in each attempt. A [*FinalError] is
	// not retried.
	Send(ctx context.Context, id string, batch []Event) error
	// Close releases the receiver's resources.
	Close()
}

// FinalError means that retrying a batch is useless.
type FinalError struct{ Err error }

func (e *FinalError) Error() string { return e.Err.Error() }
func (e *FinalError) Unwrap() error { return e.Err }

// laterError is an error with the receiver's own retry time.
type laterError struct {
	err   error
	after time.Duration
}

func (e *laterError) Error() string { return e.err.Error() }
func (e *laterError) Unwrap() error { return e.err }

// Stats are counters since the start.
type Stats struct{ Sent, Dropped uint64 }

// Feed sends events to one receiver while it runs. It is safe for concurrent use.
type Feed struct {
	name     string
	to       Receiver
	log      *slog.Logger
	format   Format // of the events
	waiting  chan Event
	sent     atomic.Uint64
	dropped  atomic.Uint64
	failing  bool
	newBatch func() string // the id of a batch
}

// NewFeed returns a feed with a name for the log. The logger may be nil.
func NewFeed(name string, to Receiver, log *slog.Logger) *Feed {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Feed{name: name, to: to, log: log, waiting: make(chan Event, maxWaiting), newBatch: newID}
}

// Name returns the name of the feed.
func (f *Feed) Name() string { return f.name }

// Tell queues an event for delivery. It does not block.
func (f *Feed) Tell(e *Event) {
	event := *e
	event.format = f.format
	select {
	case f.waiting <- event:
	default:
		f.dropped.Add(1)
	}
}

// Stats returns the counters of the feed.
func (f *Feed) Stats() Stats { return Stats{Sent: f.sent.Load(), Dropped: f.dropped.Load()} }

// Run delivers until the context ends, and then the rest within five seconds. What is
// left after that is dropped.
func (f *Feed) Run(ctx context.Context) error {
	defer f.to.Close()
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastTime, cancel) })()
	batch := make([]Event, 0, maxBatch)
	for ctx.Err() == nil {
		if batch = f.gather(ctx, batch[:0]); len(batch) > 0 {
			f.deliver(ctx, late, batch)
		}
	}
	for {
		if batch = f.more(batch[:0]); len(batch) == 0 {
			return nil
		}
		if late.Err() != nil {
			f.dropped.Add(uint64(len(batch)))
			continue
		}
		f.ended(f.to.Send(late, f.newBatch(), batch), len(batch))
	}
}

// gather collects a batch: until it is full, its first event has waited long enough, or
// the context has ended.
func (f *Feed) gather(ctx context.Context, batch []Event) []Event {
	select {
	case e := <-f.waiting:
		batch = append(batch, e)
	case <-ctx.Done():
		return batch
	}
	due := time.NewTimer(batchPause)
	defer due.Stop()
	for len(batch) < maxBatch {
		select {
		case e := <-f.waiting:
			batch = append(batch, e)
		case <-due.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// more fills a batch with waiting events.
func (f *Feed) more(batch []Event) []Event {
	for len(batch) < maxBatch {
		select {
		case e := <-f.waiting:
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}

// deliver sends a batch, with retries. After the end of ctx it makes one more attempt,
// until late ends too.
func (f *Feed) deliver(ctx, late context.Context, batch []Event) {
	id := f.newBatch()
	// Pauses vary by 50%, so that gateways do not return all at once.
	pause := backoff.Backoff{Base: 3 * leastPause / 2, Max: 3 * mostPause / 2, Jitter: 2. / 3}
	for try := 1; ; try++ {
		err := f.once(late, id, batch)
		if _, final := errors.AsType[*FinalError](err); err == nil || final || try == tries {
			f.ended(err, len(batch))
			return
		}
		f.failed(err)
		wait := pause.Next()
		if later, ok := errors.AsType[*laterError](err); ok {
			wait = max(wait, min(later.after, mostPause))
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			f.ended(f.to.Send(late, id, batch), len(batch))
			return
		}
	}
}

// once makes one attempt. The end of the gateway does not cancel it at once, but it is
// bounded.
func (f *Feed) once(late context.Context, id string, batch []Event) error {
	ctx, cancel := context.WithTimeout(late, sendTime)
	defer cancel()
	return f.to.Send(ctx, id, batch)
}

// ended counts a batch. Of consecutive failures it logs only the first, and then the
// recovery.
func (f *Feed) ended(err error, events int) {
	if err != nil {
		f.dropped.Add(uint64(events))
		f.failed(err)
		return
	}
	f.sent.Add(uint64(events))
	if f.failing {
		f.log.Info("executions are delivered again", "sink", f.name)
	}
	f.failing = false
}

func (f *Feed) failed(err error) {
	if !f.failing {
		f.log.Warn("executions cannot be delivered; they wait, and are dropped when too many do", "sink", f.name, "err", err)
	}
	f.failing = true
}
