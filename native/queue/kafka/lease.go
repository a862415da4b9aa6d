package kafka

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/toolgate/toolgate/native/queue"
)

// line is a worker's membership of the group of a queue.
type line struct {
	client *kgo.Client
	turn   chan struct{} // one at a time polls
}

const (
	// beatsPerLease says how often a worker tells the broker, in the time of a lease, that it
	// is a member of its groups. So it hears that the partitions are shared anew because
	// another one came or left, before which that one has none.
	beatsPerLease = 30
	// leastSession is the shortest session that brokers allow by default.
	leastSession = 6 * time.Second
)

// line returns that of a queue, and joins the group at the first use.
func (e *Engine) line(name string) (*line, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.lines[name]; l != nil {
		return l, nil
	}
	client, err := kgo.NewClient(append(e.options,
		kgo.ConsumerGroup("toolgate."+name), kgo.ConsumeTopics(requests+name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(max(leastSession, e.bounds.Lease)), kgo.HeartbeatInterval(e.bounds.Lease/beatsPerLease),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		return nil, fmt.Errorf("join the queue %s: %w", name, err)
	}
	l := &line{client: client, turn: make(chan struct{}, 1)}
	e.lines[name] = l
	return l, nil
}

// drop leaves the group of a queue.
func (e *Engine) drop(name string, l *line) {
	e.mu.Lock()
	if e.lines[name] == l {
		delete(e.lines, name)
	}
	e.mu.Unlock()
	l.client.CloseAllowingRebalance()
}

// Lease implements [queue.Consumer]. What is polled is committed before it is run, and
// dropped if that fails: then whoever polls next has it.
func (e *Engine) Lease(ctx context.Context, name, _ string, most int) ([]queue.Lease, error) {
	l, err := e.line(name)
	if err != nil {
		return nil, err
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for {
		got := l.client.PollRecords(ctx, most)
		if ctx.Err() != nil && got.NumRecords() == 0 {
			l.client.AllowRebalance()
			return nil, context.Cause(ctx)
		}
		if got.IsClientClosed() {
			return nil, context.Canceled
		}
		records := got.Records()
		if len(records) > 0 {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
			err := l.client.CommitRecords(bounded, records...)
			cancel()
			if err != nil {
				// This member would not see them again: it joins anew, behind what is committed.
				e.drop(name, l)
				return nil, fmt.Errorf("lease jobs of the queue %s: %w", name, err)
			}
		}
		l.client.AllowRebalance()
		if leases := e.leases(ctx, name, records); len(leases) > 0 {
			return leases, nil
		}
		if err := got.Err(); err != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("lease jobs of the queue %s: %w", name, err)
		}
	}
}

func (e *Engine) leases(ctx context.Context, name string, records []*kgo.Record) (out []queue.Lease) {
	for _, r := range records {
		deadline, _ := strconv.ParseInt(head(r, headDeadline), 10, 64) // ours
		attempt, _ := strconv.Atoi(head(r, headAttempt))
		l := &lease{e: e, attempt: attempt, beat: time.Now(), ended: make(chan struct{}), job: queue.Job{
			ID: head(r, "id"), Queue: name, Principal: head(r, headPrincipal), Repeats: head(r, headRepeats) == "true", Deadline: time.UnixMilli(deadline),
			Key: head(r, headKey), Body: r.Value,
		}}
		if time.Now().After(l.job.Deadline) {
			continue // its gateway has ended it
		}
		if err := l.say(context.WithoutCancel(ctx), leased, nil); err != nil {
			e.log.Warn("a gateway is not told of a lease", "job", l.job.ID, "err", err)
		}
		out = append(out, l)
	}
	return out
}

// lease implements [queue.Lease].
type lease struct {
	e       *Engine
	job     queue.Job
	attempt int
	ended   chan struct{}

	mu   sync.Mutex
	beat time.Time // the last
	over bool
}

func (l *lease) Job() *queue.Job        { return &l.job }
func (l *lease) Attempt() int           { return l.attempt }
func (l *lease) Ended() <-chan struct{} { return l.ended }

// say tells the gateway of the job something.
func (l *lease) say(ctx context.Context, what string, body []byte, more ...string) error {
	return l.e.send(ctx, &kgo.Record{
		Topic: results, Key: []byte(l.job.ID), Value: body, Headers: heads(append(more, headWhat, what, headAttempt, strconv.Itoa(l.attempt))...),
	})
}

// held says whether the lease is valid, by this worker's own clock: its gateway waits a
// quarter longer. last ends it.
func (l *lease) held(last bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over && time.Since(l.beat) >= l.e.bounds.Lease {
		l.over = true
		close(l.ended)
	}
	if l.over {
		return queue.ErrEnded
	}
	if last {
		l.over = true
		close(l.ended)
	}
	return nil
}

func (l *lease) Beat(ctx context.Context) error {
	if err := l.held(false); err != nil {
		return err
	}
	began := time.Now()
	if err := l.say(ctx, beats, nil); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beat = began
	return nil
}

func (l *lease) Progress(ctx context.Context, body []byte) error {
	if err := l.held(false); err != nil {
		return err
	}
	return l.say(ctx, reported, body)
}

func (l *lease) Finish(ctx context.Context, end queue.End) error {
	if err := l.held(false); err != nil {
		return err
	}
	if err := l.say(ctx, ended, end.Body, headState, string(end.State), headReason, end.Reason); err != nil {
		return err
	}
	return l.held(true)
}

func (l *lease) Return(ctx context.Context) error {
	if err := l.held(true); err != nil {
		return err
	}
	if err := l.say(ctx, returned, nil); err != nil {
		return err
	}
	return l.e.send(ctx, record(&l.job, l.attempt))
}
