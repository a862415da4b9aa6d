package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolgate/toolgate/native/queue"
)

// line is what a worker needs of a queue: a consumer for each priority and lane.
type line struct {
	consumers [queue.MaxPriority + 1][lanes]jetstream.Consumer
}

// line returns that of a queue, and makes it at the first use.
func (e *Engine) line(ctx context.Context, name string) (*line, error) {
	e.mu.Lock()
	l := e.queues[name]
	e.mu.Unlock()
	if l != nil {
		return l, nil
	}
	l = &line{}
	for p := range l.consumers {
		for i := range l.consumers[p] {
			var err error
			l.consumers[p][i], err = e.js.CreateOrUpdateConsumer(ctx, streamOf(name), jetstream.ConsumerConfig{
				Durable: fmt.Sprintf("p%d-l%d", p, i), FilterSubject: fmt.Sprintf("%s%s.%d.%d.*", requests, name, p, i),
				AckPolicy: jetstream.AckExplicitPolicy, AckWait: e.bounds.Lease, MaxDeliver: -1, MaxAckPending: -1,
			})
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				return nil, queue.ErrNoQueue
			}
			if err != nil {
				return nil, fmt.Errorf("make a consumer of the queue %s: %w", name, err)
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queues[name] = l
	return l, nil
}

// Lease implements [queue.Consumer].
func (e *Engine) Lease(ctx context.Context, name, _ string, most int) ([]queue.Lease, error) {
	l, err := e.line(ctx, name)
	if err != nil {
		return nil, err
	}
	woken := make(chan *nats.Msg, 256)
	sub, err := e.conn.ChanSubscribe(wakes+name, woken)
	if err != nil {
		return nil, fmt.Errorf("listen to the queue %s: %w", name, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	tick := time.NewTicker(min(e.bounds.Lease/4, time.Second))
	defer tick.Stop()
	got, err := e.all(ctx, name, l, most)
	for err == nil && len(got) == 0 {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
			got, err = e.all(ctx, name, l, most)
		case m := <-woken:
			p, i, _ := strings.Cut(string(m.Data), ".")
			priority, wrong := strconv.Atoi(p)
			at, wrong2 := strconv.Atoi(i)
			if wrong != nil || wrong2 != nil || priority < 0 || priority > queue.MaxPriority || at < 0 || at >= lanes {
				continue // not ours
			}
			got, err = e.fetch(ctx, name, l.consumers[priority][at], most)
		}
	}
	if len(got) > 0 {
		return got, nil
	}
	return nil, err
}

// all fetches from the lanes in turn, from those of the highest priority first. Each
// gives one job in a turn, as long as others may have some.
func (e *Engine) all(ctx context.Context, name string, l *line, most int) ([]queue.Lease, error) {
	e.mu.Lock()
	e.turn++
	first := e.turn
	e.mu.Unlock()
	var got []queue.Lease
	for p := queue.MaxPriority; p >= 0; p-- {
		for i := 0; i < lanes && len(got) < most; {
			n := min(lanes-i, most-len(got))
			some := make([]jetstream.Consumer, n)
			for at := range some {
				some[at] = l.consumers[p][(first+i+at)%lanes]
			}
			more, err := e.fetchSome(ctx, name, some, max(1, (most-len(got))/lanes))
			got = append(got, more...)
			if err != nil {
				return got, err
			}
			i += n
		}
	}
	return got, nil
}

// fetchSome leases jobs of some lanes at once, at most share of each.
func (e *Engine) fetchSome(ctx context.Context, name string, lanes []jetstream.Consumer, share int) ([]queue.Lease, error) {
	var all sync.WaitGroup
	found, errs := make([][]queue.Lease, len(lanes)), make([]error, len(lanes))
	for i, c := range lanes {
		all.Go(func() { found[i], errs[i] = e.fetch(ctx, name, c, share) })
	}
	all.Wait()
	return slices.Concat(found...), errors.Join(errs...)
}

// fetch leases jobs of one lane that wait.
func (e *Engine) fetch(ctx context.Context, name string, c jetstream.Consumer, most int) ([]queue.Lease, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	batch, err := c.FetchNoWait(most)
	if err != nil {
		return nil, fmt.Errorf("lease jobs of the queue %s: %w", name, err)
	}
	var mu sync.Mutex
	var got []queue.Lease
	var all sync.WaitGroup
	for m := range batch.Messages() {
		all.Go(func() {
			// Not cut off when ctx ends: a claim that nobody knows of would be a lost job.
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
			defer cancel()
			l, err := e.take(bounded, name, m)
			if err != nil {
				e.log.Warn("a job cannot be leased", "queue", name, "err", err)
				_ = m.Nak() // it is delivered again in any case
			}
			if l != nil {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, l)
			}
		})
	}
	all.Wait()
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) && len(got) == 0 {
		return nil, fmt.Errorf("lease jobs of the queue %s: %w", name, err)
	}
	return got, nil
}

// take claims a job that was delivered, or ends it if it must not be delivered again.
// Without an error and a lease it is done with.
func (e *Engine) take(ctx context.Context, name string, m jetstream.Msg) (queue.Lease, error) {
	j := jobOf(name, m)
	attempt := 1
	seq, ok, err := e.claim(ctx, j.ID, attempt, 0)
	if err != nil {
		return nil, err
	}
	if !ok {
		before, err := e.claimed(ctx, j.ID)
		if err != nil {
			return nil, err
		}
		if _, over, err := e.end(ctx, j.ID); err != nil {
			return nil, err
		} else if over {
			return nil, m.DoubleAck(ctx)
		}
		end, again := queue.End{State: queue.Cancelled}, before.returned // whoever claimed it for nobody is about to say so
		if before.attempt > 0 && !before.returned {
			end, again = e.bounds.WorkerLost(&j, before.attempt)
		}
		if !again {
			if err := e.finish(ctx, &j, end); err != nil && !errors.Is(err, queue.ErrEnded) {
				return nil, err
			}
			return nil, m.DoubleAck(ctx)
		}
		attempt = before.attempt + 1
		if seq, ok, err = e.claim(ctx, j.ID, attempt, before.seq); err != nil || !ok {
			return nil, err
		}
	}
	l := &lease{e: e, m: m, job: j, attempt: attempt, claim: seq, ended: make(chan struct{})}
	l.sub, err = e.conn.Subscribe(events+j.ID, func(m *nats.Msg) {
		if m.Header.Get(headEvent) == ended {
			l.close()
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen to a job: %w", err)
	}
	e.tell(j.ID, leased, attempt, nil)
	return l, nil
}

// lease implements [queue.Lease].
type lease struct {
	e       *Engine
	m       jetstream.Msg
	job     queue.Job
	attempt int
	claim   uint64
	sub     *nats.Subscription
	once    sync.Once
	ended   chan struct{}
}

func (l *lease) Job() *queue.Job        { return &l.job }
func (l *lease) Attempt() int           { return l.attempt }
func (l *lease) Ended() <-chan struct{} { return l.ended }

func (l *lease) close() {
	l.once.Do(func() {
		close(l.ended)
		_ = l.sub.Unsubscribe()
	})
}

func (l *lease) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

func (l *lease) Beat(ctx context.Context) error {
	if l.over() {
		return queue.ErrEnded
	}
	if _, over, err := l.e.end(ctx, l.job.ID); err != nil {
		return err
	} else if over {
		l.close()
		return queue.ErrEnded
	}
	l.e.tell(l.job.ID, beats, l.attempt, nil)
	if err := l.m.InProgress(); err != nil {
		return fmt.Errorf("keep a lease: %w", err)
	}
	return nil
}

func (l *lease) Progress(_ context.Context, body []byte) error {
	if l.over() {
		return queue.ErrEnded
	}
	l.e.tell(l.job.ID, reported, l.attempt, body)
	return nil
}

func (l *lease) Finish(ctx context.Context, end queue.End) error {
	end.Attempts = l.attempt
	if err := l.e.finish(ctx, &l.job, end); err != nil {
		if errors.Is(err, queue.ErrEnded) {
			l.close()
		}
		return err
	}
	l.close()
	// If this or its confirmation is lost, the job is acknowledged when it is delivered again.
	_ = l.e.conn.PublishRequest(l.m.Reply(), l.e.acks+l.job.ID+"."+strconv.Itoa(l.attempt), []byte("+ACK"))
	return nil
}

// acknowledged has the claim of a job that has ended kept a while longer: the server has
// confirmed that the job will not be delivered again. Without that it is kept as long as
// others.
func (e *Engine) acknowledged(m *nats.Msg) {
	id, attempt, _ := strings.Cut(strings.TrimPrefix(m.Subject, e.acks), ".")
	short := nats.NewMsg(claims + id)
	short.Header.Set(headAttempt, attempt)
	short.Header.Set(jetstream.MsgTTLHeader, endedTime.String())
	_ = e.conn.PublishMsg(short)
}

func (l *lease) Return(ctx context.Context) error {
	if l.over() {
		return queue.ErrEnded
	}
	l.close()
	switch ok, err := l.e.release(ctx, l.job.ID, l.attempt-1, l.claim); {
	case err != nil:
		return fmt.Errorf("give a job back: %w", err)
	case !ok:
		return queue.ErrEnded
	}
	if err := l.m.Nak(); err != nil {
		return fmt.Errorf("give a job back: %w", err)
	}
	l.e.wake(&l.job)
	return nil
}
