// Package queuetest has the tests that every queue engine passes.
package queuetest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/native/queue"
)

// Bounds are the limits of the tests, unless they say otherwise.
var Bounds = queue.Bounds{Waiting: 100_000, WaitingPerPrincipal: 100_000, Keep: time.Minute, Lease: time.Second, Attempts: 2}

// Open makes the storage of an engine. Each call of connect is another process with it.
type Open func(t testing.TB, b queue.Bounds) (connect func() queue.Engine)

// patience bounds everything that a test waits for.
const patience = 30 * time.Second

// Rig is an engine on both sides of one queue.
type Rig struct {
	TB              testing.TB
	Gateway, Worker queue.Engine
	Queue           string
	connect         func() queue.Engine
}

// NewRig declares a queue on an engine with two processes.
func NewRig(t testing.TB, open Open, b queue.Bounds) *Rig {
	t.Helper()
	connect := open(t, b)
	r := &Rig{TB: t, connect: connect, Gateway: connect(), Worker: connect(), Queue: "q" + rand.Text()[:8]}
	if err := r.Gateway.Declare(t.Context(), r.Queue, "k1"); err != nil {
		t.Fatal(err)
	}
	return r
}

// Job adds a job.
func (r *Rig) Job(change func(*queue.Job)) *queue.Job {
	r.TB.Helper()
	j := r.New(change)
	if err := r.Gateway.Enqueue(r.TB.Context(), j); err != nil {
		r.TB.Fatal(err)
	}
	return j
}

// New returns a job that is not added.
func (r *Rig) New(change func(*queue.Job)) *queue.Job {
	j := &queue.Job{ID: rand.Text(), Queue: r.Queue, Principal: "p", Deadline: time.Now().Add(time.Hour), Key: "k1", Body: []byte("body")}
	if change != nil {
		change(j)
	}
	return j
}

// Lease leases one job.
func (r *Rig) Lease() queue.Lease {
	r.TB.Helper()
	ctx, cancel := context.WithTimeout(r.TB.Context(), patience)
	defer cancel()
	got, err := r.Worker.Lease(ctx, r.Queue, "w", 1)
	if err != nil || len(got) != 1 {
		r.TB.Fatalf("%d leases: %v", len(got), err)
	}
	return got[0]
}

// None fails if there is a job to lease within a moment.
func (r *Rig) None() {
	r.TB.Helper()
	ctx, cancel := context.WithTimeout(r.TB.Context(), 300*time.Millisecond)
	defer cancel()
	got, err := r.Worker.Lease(ctx, r.Queue, "w", 10)
	if len(got) > 0 {
		r.TB.Errorf("%d jobs are leased that should not be: attempt %d", len(got), got[0].Attempt())
	} else if ctx.Err() == nil {
		r.TB.Errorf("the lease ended early: %v", err)
	}
}

// End waits for the end of a job.
func (r *Rig) End(j *queue.Job) queue.End {
	r.TB.Helper()
	ctx, cancel := context.WithTimeout(r.TB.Context(), patience)
	defer cancel()
	end, err := r.Gateway.Await(ctx, j, func([]byte) {})
	if err != nil {
		r.TB.Errorf("no end: %v", err)
	}
	return end
}

func done(body string) queue.End { return queue.End{State: queue.Done, Body: []byte(body)} }

// Run runs the suite. It runs in parallel.
func Run(t *testing.T, open Open) {
	t.Parallel()
	connect := open(t, Bounds)
	traits := connect().Traits()
	for name, test := range map[string]func(*testing.T, Open, queue.Traits){
		"Result": testResult, "Lost": testLost, "Repeated": testRepeated, "Beat": testBeat, "Return": testReturn, "Deadline": testDeadline,
		"Queues": testQueues, "Once": testOnce, "Retention": testRetention, "Order": testOrder, "Cancel": testCancel, "Bounds": testBounds,
		"LateEnd": testLateEnd, "CancelFirst": testCancelFirst, "Abandoned": testAbandoned, "Names": testNames, "ReturnAgain": testReturnAgain,
		"CancelReturned": testCancelReturned,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open, traits)
		})
	}
}

// A job goes to a worker as it is, and its reports and its result come back. What is added
// twice is one job.
func testResult(t *testing.T, open Open, _ queue.Traits) {
	r := NewRig(t, open, Bounds)
	j := r.Job(func(j *queue.Job) { j.Body = []byte("\x00\xff") })
	if err := r.Gateway.Enqueue(t.Context(), j); err != nil {
		t.Error(err)
	}
	heard, ended := make(chan string, 10), make(chan queue.End, 1)
	go func() {
		end, err := r.Gateway.Await(t.Context(), j, func(b []byte) { heard <- string(b) })
		if err != nil {
			t.Error(err)
		}
		ended <- end
	}()
	l := r.Lease()
	if got := l.Job(); got.ID != j.ID || string(got.Body) != "\x00\xff" || got.Key != "k1" || l.Attempt() != 1 {
		t.Errorf("%+v at attempt %d", got, l.Attempt())
	}
	wait(t, "a report", func() bool {
		if err := l.Progress(t.Context(), []byte("half")); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-heard:
			return got == "half"
		case <-time.After(50 * time.Millisecond):
			return false
		}
	})
	if err := l.Finish(t.Context(), done("result")); err != nil {
		t.Fatal(err)
	}
	if end := <-ended; end.State != queue.Done || string(end.Body) != "result" || end.Attempts != 1 {
		t.Errorf("%+v", end)
	}
	if end := r.End(j); string(end.Body) != "result" { // who asks again
		t.Errorf("%+v", end)
	}
	if err := l.Finish(t.Context(), done("another")); !errors.Is(err, queue.ErrEnded) {
		t.Errorf("it ends twice: %v", err)
	}
	if err := l.Beat(t.Context()); !errors.Is(err, queue.ErrEnded) {
		t.Errorf("a beat after the end: %v", err)
	}
	r.None()
}

// wait waits until something is so.
func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !is(); {
		if time.Now().After(until) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// What is not idempotent is delivered once, whoever is lost with it.
func testLost(t *testing.T, open Open, traits queue.Traits) {
	r := NewRig(t, open, Bounds)
	j := r.Job(nil)
	ended := make(chan queue.End, 1)
	go func() { ended <- r.End(j) }()
	l := r.Lease()
	if traits.Requeued {
		_ = l.Beat(t.Context()) // by which its gateway knows of it
	}
	if end := <-ended; end.State != queue.Lost || end.Attempts != 1 {
		t.Errorf("%+v", end)
	}
	if err := l.Finish(t.Context(), done("late")); !errors.Is(err, queue.ErrEnded) {
		t.Errorf("a lost worker ends it: %v", err)
	}
	r.None()
}

// What is idempotent is delivered again, but not for ever.
func testRepeated(t *testing.T, open Open, traits queue.Traits) {
	r := NewRig(t, open, Bounds)
	j := r.Job(func(j *queue.Job) { j.Repeats = true })
	ended := make(chan queue.End, 1)
	go func() { ended <- r.End(j) }()
	first := r.Lease()
	_ = first.Beat(t.Context())
	second := r.Lease()
	_ = second.Beat(t.Context())
	if second.Job().ID != j.ID || second.Attempt() != 2 {
		t.Errorf("attempt %d of %q", second.Attempt(), second.Job().ID)
	}
	if end := <-ended; end.State != queue.Dead || end.Attempts != 2 || end.Reason == "" {
		t.Errorf("%+v", end)
	}
	if traits.NoDead {
		return
	}
	letters, err := r.Gateway.Letters(t.Context(), r.Queue)
	if err != nil || len(letters) != 1 || letters[0].ID != j.ID || letters[0].Reason == "" {
		t.Errorf("%+v, %v", letters, err)
	}
	again := r.Job(func(j *queue.Job) { j.Repeats = true })
	r.Lease()
	if err := r.Lease().Finish(t.Context(), done("the second")); err != nil {
		t.Error(err)
	}
	if end := r.End(again); end.State != queue.Done || end.Attempts != 2 {
		t.Errorf("%+v", end)
	}
}

// A heartbeat keeps a lease.
func testBeat(t *testing.T, open Open, _ queue.Traits) {
	r := NewRig(t, open, Bounds)
	j := r.Job(nil)
	ended := make(chan queue.End, 1)
	go func() { ended <- r.End(j) }()
	l := r.Lease()
	tick := time.NewTicker(Bounds.Lease / 4)
	defer tick.Stop()
	for range 12 {
		<-tick.C
		if err := l.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Finish(t.Context(), done("late but alive")); err != nil {
		t.Error(err)
	}
	if end := <-ended; end.State != queue.Done {
		t.Errorf("%+v", end)
	}
}

// A job that is given back was not delivered.
func testReturn(t *testing.T, open Open, _ queue.Traits) {
	r := NewRig(t, open, Bounds)
	j := r.Job(nil)
	if err := r.Lease().Return(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := r.Lease()
	if l.Job().ID != j.ID || l.Attempt() != 1 {
		t.Errorf("attempt %d of %q", l.Attempt(), l.Job().ID)
	}
	if err := l.Finish(t.Context(), queue.End{State: queue.Dead, Reason: "refused"}); err != nil {
		t.Error(err)
	}
	if end := r.End(j); end.State != queue.Dead || end.Reason != "refused" {
		t.Errorf("%+v", end)
	}
}

// A job ends at its deadline, wherever it is.
func testDeadline(t *testing.T, open Open, traits queue.Traits) {
	r := NewRig(t, open, Bounds)
	j := r.Job(func(j *queue.Job) { j.Deadline = time.Now().Add(700 * time.Millisecond) })
	if end := r.End(j); end.State != queue.Expired || end.Attempts != 0 && !traits.Requeued { // or it is not known
		t.Errorf("%+v", end)
	}
	r.None()
}

// A worker learns whether there is a queue, and its key.
func testQueues(t *testing.T, open Open, _ queue.Traits) {
	r := NewRig(t, open, Bounds)
	if _, err := r.Worker.Key(t.Context(), r.Queue+"x"); !errors.Is(err, queue.ErrNoQueue) {
		t.Errorf("a queue that is not there: %v", err)
	}
	if key, err := r.Worker.Key(t.Context(), r.Queue); err != nil || key != "k1" {
		t.Errorf("%q, %v", key, err)
	}
	if err := r.Gateway.Declare(t.Context(), r.Queue, "k2"); err != nil {
		t.Fatal(err)
	}
	if key, err := r.Worker.Key(t.Context(), r.Queue); err != nil || key != "k2" {
		t.Errorf("%q, %v", key, err)
	}
}

// Workers with one name share the jobs, and run each once.
func testOnce(t *testing.T, open Open, _ queue.Traits) {
	r := NewRig(t, open, Bounds)
	const jobs = 200
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var mu sync.Mutex
	ran := make(map[string]int)
	var left atomic.Int64
	left.Store(jobs)
	var all sync.WaitGroup
	working, enough := context.WithCancel(ctx)
	for range 4 {
		all.Go(func() {
			for working.Err() == nil {
				got, _ := r.Worker.Lease(working, r.Queue, "one name", 5)
				for _, l := range got {
					mu.Lock()
					ran[l.Job().ID]++
					mu.Unlock()
					if err := l.Finish(ctx, done(l.Job().ID)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 10 {
		all.Go(func() {
			for range jobs / 10 {
				j := r.New(nil)
				if err := r.Gateway.Enqueue(ctx, j); err != nil {
					t.Error(err)
				}
				if end, err := r.Gateway.Await(ctx, j, func([]byte) {}); err != nil || string(end.Body) != j.ID {
					t.Errorf("%+v, %v", end, err)
				}
				if left.Add(-1) == 0 {
					enough()
				}
			}
		})
	}
	all.Wait()
	enough()
	for id, n := range ran {
		if n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
	if len(ran) != jobs {
		t.Errorf("%d of %d jobs ran", len(ran), jobs)
	}
}

// What has ended is forgotten after its time.
func testRetention(t *testing.T, open Open, traits queue.Traits) {
	if traits.NoBounds {
		return
	}
	b := Bounds
	b.Keep = time.Second
	r := NewRig(t, open, b)
	j := r.Job(nil)
	if err := r.Lease().Finish(t.Context(), done("")); err != nil {
		t.Fatal(err)
	}
	if end := r.End(j); end.State != queue.Done {
		t.Errorf("%+v", end)
	}
	other := r.Job(nil) // which has the engine look
	wait(t, "the end of the result", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, _ = r.Gateway.Await(ctx, other, func([]byte) {})
		_, err := r.Gateway.Await(ctx, j, func([]byte) {})
		return errors.Is(err, queue.ErrUnknown) || errors.Is(err, context.DeadlineExceeded)
	})
}

// What is urgent is leased first. Callers take turns.
func testOrder(t *testing.T, open Open, traits queue.Traits) {
	r := NewRig(t, open, Bounds)
	of := func(principal string, priority, n int) {
		for range n {
			r.Job(func(j *queue.Job) { j.Principal, j.Priority = principal, priority })
		}
	}
	of("greedy", 0, 8)
	of("modest", 0, 2)
	of("urgent", queue.MaxPriority, 1)
	var order []string
	for range 11 {
		l := r.Lease()
		order = append(order, l.Job().Principal)
		if err := l.Finish(t.Context(), done("")); err != nil {
			t.Fatal(err)
		}
	}
	if !traits.NoPriority && order[0] != "urgent" {
		t.Errorf("what is urgent is not the first: %q", order)
	}
	slices.Reverse(order)
	last := len(order) - 1 - slices.Index(order, "modest")
	if !traits.NoFairness && last > 5 {
		t.Errorf("the modest wait for the greedy: %q", order)
	}
}

// A job is cancelled before and after its start.
func testCancel(t *testing.T, open Open, traits queue.Traits) {
	if traits.NoCancel {
		return
	}
	r := NewRig(t, open, Bounds)
	waits := r.Job(nil)
	for i, want := range []bool{true, false} {
		if ended, err := r.Gateway.Cancel(t.Context(), waits, true); ended != want || err != nil {
			t.Errorf("time %d: %v, %v", i, ended, err)
		}
	}
	if end := r.End(waits); end.State != queue.Cancelled || end.Attempts != 0 {
		t.Errorf("%+v", end)
	}
	r.None()
	runs := r.Job(nil)
	l := r.Lease()
	if ended, err := r.Gateway.Cancel(t.Context(), runs, false); ended || err != nil {
		t.Errorf("one that runs is taken back: %v, %v", ended, err)
	}
	if ended, err := r.Gateway.Cancel(t.Context(), runs, true); !ended || err != nil {
		t.Errorf("%v, %v", ended, err)
	}
	select {
	case <-l.Ended():
	case <-time.After(patience):
		t.Error("the worker does not learn of it")
	}
	if err := l.Finish(t.Context(), done("late")); !errors.Is(err, queue.ErrEnded) {
		t.Errorf("it ends twice: %v", err)
	}
	if end := r.End(runs); end.State != queue.Cancelled || end.Attempts != 1 {
		t.Errorf("%+v", end)
	}
}

// A queue takes what it may, of all and of each.
func testBounds(t *testing.T, open Open, traits queue.Traits) {
	if traits.NoBounds {
		return
	}
	b := Bounds
	b.Waiting, b.WaitingPerPrincipal = 6, 4
	r := NewRig(t, open, b)
	add := func(principal string) error {
		return r.Gateway.Enqueue(t.Context(), r.New(func(j *queue.Job) { j.Principal = principal }))
	}
	var errs []error
	for i := range 5 {
		if err := add("a"); i == 4 {
			errs = append(errs, err)
		} else if err != nil {
			t.Fatal(i, err)
		}
	}
	for i := range 3 {
		if err := add("b"); i == 2 {
			errs = append(errs, err)
		} else if err != nil {
			t.Fatal(i, err)
		}
	}
	if !errors.Is(errs[0], queue.ErrYours) || !errors.Is(errs[1], queue.ErrFull) {
		t.Error(errs)
	}
	for range 3 {
		if err := r.Lease().Finish(t.Context(), done("")); err != nil {
			t.Fatal(err)
		}
	}
	if err := add("a"); err != nil {
		t.Errorf("after some have run: %v", err)
	}
}
