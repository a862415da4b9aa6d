package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolgate/toolgate/native/queue"
)

// Enqueue implements [queue.Producer].
func (e *Engine) Enqueue(ctx context.Context, j *queue.Job) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	_, err := e.js.PublishMsg(ctx, message(j))
	if err == nil {
		e.wake(j)
		return nil
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch {
		case strings.Contains(api.Description, "maximum messages per subject"):
			return queue.ErrYours
		case strings.Contains(api.Description, "maximum messages"):
			return queue.ErrFull
		}
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		return queue.ErrTooBig
	}
	return fmt.Errorf("add a job: %w", err)
}

// wake tells workers that a job waits. It may be lost: workers look by themselves as well.
func (e *Engine) wake(j *queue.Job) {
	_ = e.conn.Publish(wakes+j.Queue, []byte(strconv.Itoa(j.Priority)+"."+strconv.Itoa(lane(j.Principal))))
}

// watch is what a gateway knows of a job that it waits for.
type watch struct {
	e       *Engine
	job     *queue.Job
	attempt int       // 0 before it is leased
	heard   time.Time // of its worker
	ended   queue.End // if its event says how; it was stored before
}

// Await implements [queue.Producer].
func (e *Engine) Await(ctx context.Context, j *queue.Job, progress func([]byte)) (queue.End, error) {
	heard := make(chan *nats.Msg, 64)
	sub, err := e.conn.ChanSubscribe(events+j.ID, heard)
	if err != nil {
		return queue.End{}, fmt.Errorf("wait for a job: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	w := &watch{e: e, job: j, heard: time.Now()}
	tick := time.NewTicker(max(e.bounds.Lease/4, 50*time.Millisecond))
	defer tick.Stop()
	late := time.NewTimer(time.Until(j.Deadline))
	defer late.Stop()
	for look := true; ; {
		end, ok := w.ended, w.ended.State != ""
		if look && !ok {
			end, ok, _ = e.end(ctx, j.ID) // it is looked for again
		}
		if ok {
			for len(heard) > 0 {
				w.event(<-heard, progress)
			}
			return end, nil
		}
		look = true
		select {
		case <-ctx.Done():
			return queue.End{}, context.Cause(ctx)
		case m := <-heard:
			look = w.event(m, progress)
		case <-late.C:
			if !w.expire(ctx) {
				late.Reset(time.Second) // the server is away
			}
		case <-tick.C:
			w.check(ctx)
		}
	}
}

// event notes what is said of a job, and reports whether that is its end.
func (w *watch) event(m *nats.Msg, progress func([]byte)) (over bool) {
	w.heard = time.Now()
	if attempt, _ := strconv.Atoi(m.Header.Get(headAttempt)); attempt > 0 {
		w.attempt = attempt
	}
	if m.Header.Get(headEvent) == reported {
		progress(m.Data)
	}
	over = m.Header.Get(headEvent) == ended
	if over && m.Header.Get(headState) != "" {
		w.ended = endOf(m.Header, m.Data)
	}
	return over
}

// check ends a job whose worker has been silent for longer than a lease, and that nobody
// else may run. What may run again is delivered again by JetStream.
func (w *watch) check(ctx context.Context) {
	patience := w.e.bounds.Lease * 5 / 4
	if time.Since(w.heard) < patience || time.Since(time.Unix(0, w.e.connected.Load())) < patience || !w.e.conn.IsConnected() {
		return
	}
	c, err := w.e.claimed(ctx, w.job.ID)
	switch {
	case err != nil || c.attempt == 0 && !c.returned:
		return
	case c.returned:
		w.attempt, w.heard = c.attempt, time.Now()
		return
	case c.attempt > w.attempt: // it is leased, and has not been heard of
		w.attempt, w.heard = c.attempt, time.Now()
		return
	}
	if end, again := w.e.bounds.WorkerLost(w.job, c.attempt); !again {
		_ = w.end(ctx, end) // or the next check does
	}
}

// expire ends a job at its deadline, and reports whether it has ended.
func (w *watch) expire(ctx context.Context) bool {
	c, _, err := w.e.takeBack(ctx, w.job.ID)
	if err != nil {
		return false
	}
	return w.end(ctx, queue.End{State: queue.Expired, Attempts: c.attempt})
}

func (w *watch) end(ctx context.Context, end queue.End) bool {
	err := w.e.finish(ctx, w.job, end)
	if err == nil || errors.Is(err, queue.ErrEnded) {
		return true
	}
	if ctx.Err() == nil {
		w.e.log.Warn("a job cannot be ended", "job", w.job.ID, "err", err)
	}
	return false
}

// Cancel implements [queue.Producer]. A job that waits is claimed for nobody.
func (e *Engine) Cancel(ctx context.Context, j *queue.Job, even bool) (bool, error) {
	c, waits, err := e.takeBack(ctx, j.ID)
	if err != nil || !waits && !even {
		return false, err
	}
	switch err := e.finish(ctx, j, queue.End{State: queue.Cancelled, Attempts: c.attempt}); {
	case errors.Is(err, queue.ErrEnded):
		return false, nil
	default:
		return err == nil, err
	}
}
