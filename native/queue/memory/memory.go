// Package memory is a queue engine within one process.
package memory

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/native/queue"
)

// Engine keeps jobs in memory. Make it with [New].
type Engine struct {
	bounds queue.Bounds

	mu     sync.Mutex
	keys   map[string]string // by queue
	queues map[string]*line
	jobs   map[string]*job
	ended  []*job // the oldest first
	leased map[*job]struct{}
}

// New returns an engine without jobs.
func New(b queue.Bounds) *Engine {
	return &Engine{
		bounds: b, keys: make(map[string]string), queues: make(map[string]*line), jobs: make(map[string]*job), leased: make(map[*job]struct{}),
	}
}

// job is a job with its state; the mutex of the engine guards what changes.
type job struct {
	queue.Job
	turn, seq int64
	at        int // in the heap; -1 when it does not wait
	attempt   int
	until     time.Time // of the lease
	ended     chan struct{}
	end       queue.End
	endedAt   time.Time
	news      chan []byte // reports for who waits; nil before the first
}

// listen returns where the reports of a job come; mu of the engine is held.
func (j *job) listen() chan []byte {
	if j.news == nil {
		j.news = make(chan []byte, 64)
	}
	return j.news
}

// line is the waiting jobs of a queue.
type line struct {
	waiting []*job // a heap
	last    map[string]int64
	count   map[string]int // waiting by principal; none is zero
	floor   int64          // the turn that is served
	seq     int64
	wake    chan struct{} // closed when a job comes
}

func (l *line) Len() int { return len(l.waiting) }
func (l *line) Less(i, j int) bool {
	a, b := l.waiting[i], l.waiting[j]
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.turn, b.turn), cmp.Compare(a.seq, b.seq)) < 0
}

func (l *line) Swap(i, j int) {
	l.waiting[i], l.waiting[j] = l.waiting[j], l.waiting[i]
	l.waiting[i].at, l.waiting[j].at = i, j
}

func (l *line) Push(x any) {
	j := x.(*job) // nothing else is in it
	j.at = len(l.waiting)
	l.waiting = append(l.waiting, j)
}

func (l *line) Pop() any {
	last := len(l.waiting) - 1
	j := l.waiting[last]
	l.waiting[last], l.waiting = nil, l.waiting[:last]
	j.at = -1
	return j
}

// add has a job wait.
func (l *line) add(j *job) {
	heap.Push(l, j)
	l.count[j.Principal]++
	close(l.wake)
	l.wake = make(chan struct{})
}

// remove ends the wait of a job.
func (l *line) remove(j *job) {
	heap.Remove(l, j.at)
	if l.count[j.Principal]--; l.count[j.Principal] == 0 {
		delete(l.count, j.Principal)
		delete(l.last, j.Principal)
	}
}

// line returns the line of a queue; mu is held.
func (e *Engine) line(name string) *line {
	l := e.queues[name]
	if l == nil {
		l = &line{last: make(map[string]int64), count: make(map[string]int), wake: make(chan struct{})}
		e.queues[name] = l
	}
	return l
}

// Traits implements [queue.Engine].
func (e *Engine) Traits() queue.Traits { return queue.Traits{} }

// Close implements [queue.Engine].
func (e *Engine) Close() error { return nil }

// Declare implements [queue.Engine].
func (e *Engine) Declare(_ context.Context, name, key string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keys[name] = key
	return nil
}

// Key implements [queue.Consumer].
func (e *Engine) Key(_ context.Context, name string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key, ok := e.keys[name]
	if !ok {
		return "", queue.ErrNoQueue
	}
	return key, nil
}

// Enqueue implements [queue.Producer].
func (e *Engine) Enqueue(_ context.Context, of *queue.Job) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweep(time.Now())
	if e.jobs[of.ID] != nil {
		return nil
	}
	l := e.line(of.Queue)
	switch {
	case len(l.waiting) >= e.bounds.Waiting:
		return queue.ErrFull
	case l.count[of.Principal] >= e.bounds.WaitingPerPrincipal:
		return queue.ErrYours
	}
	l.seq++
	j := &job{Job: *of, seq: l.seq, turn: max(l.last[of.Principal], l.floor) + 1, ended: make(chan struct{})}
	l.last[of.Principal] = j.turn
	e.jobs[j.ID] = j
	l.add(j)
	return nil
}

// Await implements [queue.Producer].
func (e *Engine) Await(ctx context.Context, of *queue.Job, progress func([]byte)) (queue.End, error) {
	e.mu.Lock()
	j := e.jobs[of.ID]
	var news chan []byte
	if j != nil {
		news = j.listen()
	}
	e.mu.Unlock()
	if j == nil {
		return queue.End{}, queue.ErrUnknown
	}
	tick := time.NewTicker(e.bounds.Lease / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return queue.End{}, context.Cause(ctx)
		case body := <-news:
			progress(body)
		case <-tick.C:
			e.mu.Lock()
			e.sweep(time.Now())
			if !j.over() && time.Now().After(j.Deadline) { // it may wait behind others
				e.finish(j, queue.End{State: queue.Expired})
			}
			e.mu.Unlock()
		case <-j.ended:
			for {
				select {
				case body := <-news:
					progress(body)
				default:
					return j.end, nil // does not change any more
				}
			}
		}
	}
}

// Cancel implements [queue.Producer].
func (e *Engine) Cancel(_ context.Context, of *queue.Job, leased bool) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.jobs[of.ID]
	switch {
	case j == nil: // it may be on its way
		j = &job{Job: *of, at: -1, ended: make(chan struct{})}
		e.jobs[j.ID] = j
	case j.over() || j.at < 0 && !leased:
		return false, nil
	}
	e.finish(j, queue.End{State: queue.Cancelled})
	return true, nil
}

func (j *job) over() bool { return j.end.State != "" }

// finish ends a job; mu is held.
func (e *Engine) finish(j *job, end queue.End) {
	if j.at >= 0 {
		e.line(j.Queue).remove(j)
	}
	delete(e.leased, j)
	end.Attempts = j.attempt
	j.end, j.endedAt, j.Body = end, time.Now(), nil
	e.ended = append(e.ended, j)
	close(j.ended)
}

// Lease implements [queue.Consumer].
func (e *Engine) Lease(ctx context.Context, name, _ string, most int) ([]queue.Lease, error) {
	tick := time.NewTicker(e.bounds.Lease / 4)
	defer tick.Stop()
	for {
		e.mu.Lock()
		now := time.Now()
		e.sweep(now)
		l := e.line(name)
		var got []queue.Lease
		for len(got) < most && len(l.waiting) > 0 {
			j := l.waiting[0]
			if now.After(j.Deadline) {
				e.finish(j, queue.End{State: queue.Expired})
				continue
			}
			l.remove(j)
			l.floor = max(l.floor, j.turn)
			j.attempt++
			j.until = now.Add(e.bounds.Lease)
			e.leased[j] = struct{}{}
			got = append(got, &lease{e: e, j: j, of: j.Job, attempt: j.attempt})
		}
		wake := l.wake
		e.mu.Unlock()
		if len(got) > 0 {
			return got, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-wake:
		case <-tick.C:
		}
	}
}

// sweep ends leases that have expired and jobs at their deadline, and forgets what was
// kept long enough; mu is held.
func (e *Engine) sweep(now time.Time) {
	for j := range e.leased {
		switch {
		case now.After(j.Deadline):
			e.finish(j, queue.End{State: queue.Expired})
		case now.Before(j.until):
		default:
			end, again := e.bounds.WorkerLost(&j.Job, j.attempt)
			if !again {
				e.finish(j, end)
				continue
			}
			delete(e.leased, j)
			e.line(j.Queue).add(j)
		}
	}
	n := 0
	for n < len(e.ended) && now.Sub(e.ended[n].endedAt) >= e.bounds.Keep {
		delete(e.jobs, e.ended[n].ID)
		n++
	}
	e.ended = slices.Delete(e.ended, 0, n)
}

// Letters implements [queue.Engine].
func (e *Engine) Letters(_ context.Context, name string) (out []queue.Letter, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweep(time.Now())
	for _, j := range slices.Backward(e.ended) {
		if j.Queue == name && j.end.State == queue.Dead && len(out) < 1000 {
			out = append(out, queue.Letter{ID: j.ID, Reason: j.end.Reason, Attempts: j.attempt, At: j.endedAt})
		}
	}
	return out, nil
}

// lease implements [queue.Lease].
type lease struct {
	e       *Engine
	j       *job
	of      queue.Job
	attempt int
}

func (l *lease) Job() *queue.Job        { return &l.of }
func (l *lease) Attempt() int           { return l.attempt }
func (l *lease) Ended() <-chan struct{} { return l.j.ended }

// held runs f while the lease is valid.
func (l *lease) held(f func()) error {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.e.sweep(time.Now())
	if _, is := l.e.leased[l.j]; !is || l.j.attempt != l.attempt {
		return queue.ErrEnded
	}
	f()
	return nil
}

func (l *lease) Beat(context.Context) error {
	return l.held(func() { l.j.until = time.Now().Add(l.e.bounds.Lease) })
}

func (l *lease) Progress(_ context.Context, body []byte) error {
	return l.held(func() {
		select {
		case l.j.listen() <- body:
		default: // nobody reads that fast
		}
	})
}

func (l *lease) Finish(_ context.Context, end queue.End) error {
	return l.held(func() { l.e.finish(l.j, end) })
}

func (l *lease) Return(context.Context) error {
	return l.held(func() {
		delete(l.e.leased, l.j)
		l.j.attempt--
		l.e.line(l.j.Queue).add(l.j)
	})
}
