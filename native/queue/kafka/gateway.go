package kafka

import (
	"context"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/toolgate/toolgate/native/queue"
)

// Headers of records.
const (
	headPrincipal = "principal"
	headRepeats   = "repeats"
	headDeadline  = "deadline"
	headKey       = "key"
	headAttempt   = "attempt"
	headWhat      = "what"
	headState     = "state"
	headReason    = "reason"
)

// What workers say about a job.
const (
	leased   = "leased"
	beats    = "beats"
	returned = "returned"
	reported = "reported"
	ended    = "ended"
)

// job is a job of this gateway. The mutex of the engine guards what changes.
type job struct {
	queue.Job
	sent    int   // attempts that were sent
	failed  error // why it may not have been added
	waiters int
	attempt int // 0 while it is not leased
	heard   time.Time
	end     queue.End
	endedAt time.Time
	ended   chan struct{}
	news    chan []byte // nil before anybody waits
}

func heads(pairs ...string) (out []kgo.RecordHeader) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return out
}

func head(r *kgo.Record, name string) string {
	for i := range r.Headers {
		if r.Headers[i].Key == name {
			return string(r.Headers[i].Value)
		}
	}
	return ""
}

// record returns the record of a job. Its partition is that of its caller.
func record(j *queue.Job, attempt int) *kgo.Record {
	return &kgo.Record{Topic: requests + j.Queue, Key: []byte(j.Principal), Value: j.Body, Headers: heads(
		"id", j.ID, headPrincipal, j.Principal, headRepeats, strconv.FormatBool(j.Repeats), headDeadline, strconv.FormatInt(j.Deadline.UnixMilli(), 10),
		headKey, j.Key, headAttempt, strconv.Itoa(attempt),
	)}
}

// Enqueue implements [queue.Producer].
func (e *Engine) Enqueue(ctx context.Context, of *queue.Job) error {
	e.mu.Lock()
	e.sweep(time.Now())
	if j := e.jobs[of.ID]; j != nil {
		defer e.mu.Unlock()
		return j.failed
	}
	j := &job{Job: *of, sent: 1, ended: make(chan struct{})}
	e.jobs[of.ID] = j
	e.mu.Unlock()
	err := e.send(ctx, record(of, 1))
	if err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		// A second record could be a second delivery.
		j.failed = err
		e.finish(j, queue.End{State: queue.Expired, Attempts: 1})
	}
	return err
}

// sweepEvery is how often jobs are forgotten, at most.
const sweepEvery = time.Second

// sweep forgets jobs that have ended, and those that nobody has waited for; mu is held.
func (e *Engine) sweep(now time.Time) {
	if now.Sub(e.swept) < sweepEvery {
		return
	}
	e.swept = now
	for id, j := range e.jobs {
		ended := j.endedAt
		if j.end.State == "" {
			ended = j.Deadline
		}
		if now.Sub(ended) >= e.bounds.Keep {
			delete(e.jobs, id)
		}
	}
}

// Cancel implements [queue.Producer]: a record cannot be taken back.
func (e *Engine) Cancel(context.Context, *queue.Job, bool) (bool, error) { return false, nil }

// Await implements [queue.Producer], for jobs that this process has added. A job that
// nobody waits for any more is forgotten: its worker ends it for nobody.
func (e *Engine) Await(ctx context.Context, of *queue.Job, progress func([]byte)) (queue.End, error) {
	e.mu.Lock()
	j := e.jobs[of.ID]
	var news chan []byte
	if j != nil {
		j.waiters++
		if j.news == nil {
			j.news = make(chan []byte, 64)
		}
		news = j.news
	}
	e.mu.Unlock()
	if j == nil {
		return queue.End{}, queue.ErrUnknown
	}
	defer e.leave(j)
	tick := time.NewTicker(max(e.bounds.Lease/4, 50*time.Millisecond))
	defer tick.Stop()
	late := time.NewTimer(time.Until(of.Deadline))
	defer late.Stop()
	for {
		select {
		case <-ctx.Done():
			return queue.End{}, context.Cause(ctx)
		case body := <-news:
			progress(body)
		case <-late.C:
			e.mu.Lock()
			// A worker may have it that has not been heard of.
			e.finish(j, queue.End{State: queue.Expired, Attempts: max(j.attempt, 1)})
			e.mu.Unlock()
		case <-tick.C:
			e.check(ctx, j)
		case <-j.ended:
			for len(news) > 0 {
				progress(<-news)
			}
			return j.end, nil // does not change any more
		}
	}
}

// leave ends a wait.
func (e *Engine) leave(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j.waiters--; j.waiters == 0 && j.end.State == "" {
		delete(e.jobs, j.ID)
	}
}

// finish ends a job, unless it has ended; mu is held.
func (e *Engine) finish(j *job, end queue.End) {
	if j.end.State == "" {
		j.end, j.endedAt, j.Body = end, time.Now(), nil
		close(j.ended)
	}
}

// check ends a job whose worker has been silent for longer than a lease, or sends it again.
func (e *Engine) check(ctx context.Context, j *job) {
	e.mu.Lock()
	if j.attempt == 0 || j.end.State != "" || time.Since(j.heard) < e.bounds.Lease*5/4 {
		e.mu.Unlock()
		return
	}
	end, again := e.bounds.WorkerLost(&j.Job, j.attempt)
	if !again {
		e.finish(j, end)
		e.mu.Unlock()
		return
	}
	before := j.attempt
	j.sent, j.attempt = before+1, 0
	next := record(&j.Job, j.sent)
	e.mu.Unlock()
	err := e.send(ctx, next)
	if err == nil || ctx.Err() != nil {
		return
	}
	e.log.Warn("a job is sent again later", "job", j.ID, "err", err)
	e.mu.Lock()
	defer e.mu.Unlock()
	if j.attempt == 0 { // nobody has it
		j.sent, j.attempt = before, before
	}
}

// read reads what workers say until ctx ends.
func (e *Engine) read(ctx context.Context) {
	for ctx.Err() == nil {
		got := e.client.PollFetches(ctx)
		got.EachError(func(topic string, _ int32, err error) {
			if ctx.Err() == nil {
				e.log.Warn("what workers say cannot be read", "topic", topic, "err", err)
			}
		})
		e.mu.Lock()
		got.EachRecord(e.said)
		e.mu.Unlock()
	}
}

// said notes what a worker says; mu is held. A worker of an earlier attempt may end a job,
// and is not heard otherwise.
func (e *Engine) said(r *kgo.Record) {
	j := e.jobs[string(r.Key)]
	if j == nil || j.end.State != "" {
		return
	}
	attempt, _ := strconv.Atoi(head(r, headAttempt)) // ours
	what := head(r, headWhat)
	switch {
	case what == ended && (j.Repeats || attempt == j.sent):
		e.finish(j, queue.End{State: queue.State(head(r, headState)), Body: r.Value, Attempts: attempt, Reason: head(r, headReason)})
	case attempt != j.sent:
	case what == returned:
		j.attempt = 0
	default:
		j.attempt, j.heard = attempt, time.Now()
		if what == reported {
			select {
			case j.news <- r.Value:
			default: // nobody reads that fast
			}
		}
	}
}
