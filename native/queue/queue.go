// Package queue runs long calls on a bounded pool of workers. They are tasks
// (2026-07-28, extension io.modelcontextprotocol/tasks) for clients that support them,
// and are held open for other clients.
package queue

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Limits are the limits of a pool. Zero is the default, except for Waiting and
// WaitingPerPrincipal: zero lets no call wait.
type Limits struct {
	Settings

	Each      int           // calls of one caller that run at once; three quarters of Workers, rounded down, and at least one
	Kept      int           // results at most; 1000
	KeptBytes int           // of them; 64 MiB
	Hard      time.Duration // of one call with its waiting; 24 h
}

func (l Limits) withDefaults() Limits {
	l.Workers = cmp.Or(max(0, l.Workers), 4)
	l.Each = cmp.Or(max(0, l.Each), max(1, l.Workers*3/4))
	l.Keep = cmp.Or(max(0, l.Keep), 10*time.Minute)
	l.Kept = cmp.Or(max(0, l.Kept), 1000)
	l.KeptBytes = cmp.Or(max(0, l.KeptBytes), 64<<20)
	l.Hard = cmp.Or(max(0, l.Hard), 24*time.Hour)
	return l
}

// Pool has the workers of all queues. It limits the calls that run, wait, or are kept
// after their end. It is safe for concurrent use.
type Pool struct {
	log *slog.Logger

	mu      sync.Mutex
	limits  Limits
	closed  bool
	running int
	runs    map[string]int // by principal
	waiting list.List      // of *permit, the oldest first
	waits   map[string]int // by principal
	tasks   map[string]*task
	kept    kept
	live    sync.WaitGroup
}

// New returns a pool. A nil logger logs nothing.
func New(l Limits, log *slog.Logger) *Pool {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Pool{
		log: log, limits: l.withDefaults(), runs: make(map[string]int), waits: make(map[string]int), tasks: make(map[string]*task),
		kept: kept{of: make(map[string]share)},
	}
}

// Configure replaces the limits. Calls beyond lower limits continue.
func (p *Pool) Configure(l Limits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = l.withDefaults()
	p.next()
	p.trim(time.Now())
}

// Drain refuses new calls and waits for those that run or wait. When the context ends, it
// cancels the tasks among them, waits for their end, and returns their number. Calls
// that are held open end with their callers.
func (p *Pool) Drain(ctx context.Context) (cut int) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	done := make(chan struct{})
	go func() { p.live.Wait(); close(done) }() // ends with the last task, which ends when it is cancelled
	select {
	case <-done:
		return 0
	case <-ctx.Done():
	}
	p.mu.Lock()
	for _, t := range p.tasks {
		if t.status == working {
			t.cancel(ErrStopped)
			cut++
		}
	}
	p.mu.Unlock()
	<-done
	return cut
}

// ErrStopped is the cause of the end of a task with its gateway.
var ErrStopped = errors.New("the gateway ends")

var (
	errCancelled = errors.New("the task was cancelled")
	errTooLong   = errors.New("the task took too long")
)

// permit is a call that waits for a worker or has one.
type permit struct {
	principal string
	turn      chan struct{} // closed when it gets a worker
	at        *list.Element // nil once it has
	waited    bool          // it has not got a worker at once
}

// enter accepts a call, or refuses it if the queue is full.
func (p *Pool) enter(server, principal string) (*permit, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &permit{principal: principal, turn: make(chan struct{})}
	switch {
	case p.closed:
		return nil, busy(server, "the gateway is about to end")
	case p.running < p.limits.Workers && p.runs[principal] < p.limits.Each: // callers with waiting calls use all workers that they may
		p.start(t)
		return t, nil
	case p.waiting.Len() >= p.limits.Waiting:
		return nil, busy(server, fmt.Sprintf("%d calls wait for a worker already", p.waiting.Len()))
	case p.waits[principal] >= p.limits.WaitingPerPrincipal:
		return nil, busy(server, fmt.Sprintf("%d of your calls wait for a worker already", p.waits[principal]))
	}
	t.at, t.waited = p.waiting.PushBack(t), true
	p.waits[principal]++
	return t, nil
}

func busy(server, why string) error {
	return &mcp.Failure{
		Kind: mcp.FailBusy, Server: server, RetryAfter: time.Second,
		Reason: "The queue of this tool takes no call now: " + why + ". Try again later.",
	}
}

// leave releases the worker of a permit, or its place in the queue.
func (p *Pool) leave(t *permit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.at != nil {
		p.unqueue(t)
		return
	}
	p.running--
	decrease(p.runs, t.principal)
	p.next()
}

// start assigns a worker to a permit; mu is held.
func (p *Pool) start(t *permit) {
	p.running++
	p.runs[t.principal]++
	close(t.turn)
}

// decrease subtracts one from the count of a principal.
func decrease(counts map[string]int, principal string) {
	if counts[principal]--; counts[principal] == 0 {
		delete(counts, principal)
	}
}

// unqueue removes a waiting permit; mu is held.
func (p *Pool) unqueue(t *permit) {
	p.waiting.Remove(t.at)
	t.at = nil
	decrease(p.waits, t.principal)
}

// next assigns free workers: first to callers with the fewest running calls, then to
// calls that have waited longest; mu is held.
func (p *Pool) next() {
	for p.running < p.limits.Workers {
		var best *permit
		for at := p.waiting.Front(); at != nil; at = at.Next() {
			t := at.Value.(*permit) // nothing else is in it
			if n := p.runs[t.principal]; n < p.limits.Each && (best == nil || n < p.runs[best.principal]) {
				best = t
			}
		}
		if best == nil {
			return
		}
		p.unqueue(best)
		p.start(best)
	}
}

// work waits for a worker and runs a call.
func (p *Pool) work(ctx context.Context, t *permit, run func(context.Context) (mcp.Answer, error)) (mcp.Answer, error) {
	defer p.leave(t)
	select {
	case <-t.turn:
	case <-ctx.Done():
		return mcp.Answer{}, context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return mcp.Answer{}, context.Cause(ctx)
	}
	return run(ctx)
}
