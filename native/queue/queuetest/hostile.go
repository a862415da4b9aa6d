package queuetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/toolgate/toolgate/native/queue"
)

// A worker that was given up on ends its job too late. That does not end the lease of the
// worker that has the job now.
func testLateEnd(t *testing.T, open Open, traits queue.Traits) {
	r := NewRig(t, open, Bounds)
	other := r.Worker
	if !traits.Requeued { // else both would have shares of the queue, whether they lease or not
		other = r.connect()
	}
	j := r.Job(func(j *queue.Job) { j.Repeats = true })
	ended := make(chan queue.End, 1)
	go func() { ended <- r.End(j) }()
	first := r.Lease()
	_ = first.Beat(t.Context()) // by which some gateways know of it
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := other.Lease(ctx, r.Queue, "w", 1)
	if err != nil || len(got) != 1 || got[0].Attempt() != 2 {
		t.Fatalf("%d leases, %v", len(got), err)
	}
	want := "second"
	if err := first.Finish(t.Context(), done("first")); err == nil {
		want = "first" // an answer is an answer
	} else if !errors.Is(err, queue.ErrEnded) {
		t.Error(err)
	}
	if want == "second" {
		for range 2 {
			select {
			case <-got[0].Ended():
				t.Error("the worker that has the job is told that it has ended")
			case <-time.After(Bounds.Lease / 4):
			}
			if err := got[0].Beat(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := got[0].Finish(t.Context(), done("second")); err != nil {
			t.Error(err)
		}
	}
	if end := <-ended; string(end.Body) != want {
		t.Errorf("%+v, not %s", end, want)
	}
}

// A cancellation that overtakes its job stands: the gateway has told its caller that
// nothing runs.
func testCancelFirst(t *testing.T, open Open, traits queue.Traits) {
	if traits.NoCancel {
		return
	}
	r := NewRig(t, open, Bounds)
	j := r.New(nil)
	if ended, err := r.Gateway.Cancel(t.Context(), j, false); !ended || err != nil {
		t.Errorf("%v, %v", ended, err)
	}
	if err := r.Gateway.Enqueue(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	r.None()
	if end := r.End(j); end.State != queue.Cancelled || end.Attempts != 0 {
		t.Errorf("%+v", end)
	}
}

// A job whose gateway has gone is not run after its deadline.
func testAbandoned(t *testing.T, open Open, _ queue.Traits) {
	r := NewRig(t, open, Bounds)
	gateway := r.connect()
	j := r.New(func(j *queue.Job) { j.Deadline = time.Now().Add(time.Second) })
	if err := gateway.Enqueue(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	_ = gateway.Close()
	<-time.After(2500 * time.Millisecond) // engines count in seconds
	r.None()
}

// Every name that a queue may have is free: it meets no name of the engine's own.
func testNames(t *testing.T, open Open, _ queue.Traits) {
	r := NewRig(t, open, Bounds)
	for _, name := range []string{"results", "claims", "dead", "queues", "requests", "0-9"} {
		if err := r.Gateway.Declare(t.Context(), name, "k1"); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r.Queue = name
		j := r.Job(nil)
		if err := r.Lease().Finish(t.Context(), done(name)); err != nil {
			t.Error(err)
		}
		if end := r.End(j); string(end.Body) != name {
			t.Errorf("%s: %+v", name, end)
		}
	}
}

// A job that is given back keeps the count of its deliveries before.
func testReturnAgain(t *testing.T, open Open, _ queue.Traits) {
	r := NewRig(t, open, Bounds)
	j := r.Job(func(j *queue.Job) { j.Repeats = true })
	ended := make(chan queue.End, 1)
	go func() { ended <- r.End(j) }()
	_ = r.Lease().Beat(t.Context()) // and it is lost
	if err := r.Lease().Return(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := r.Lease()
	if l.Attempt() != 2 {
		t.Errorf("attempt %d", l.Attempt())
	}
	if err := l.Finish(t.Context(), done("x")); err != nil {
		t.Error(err)
	}
	if end := <-ended; end.State != queue.Done || end.Attempts != 2 {
		t.Errorf("%+v", end)
	}
}

// A job that is cancelled while its worker gives it back does not run.
func testCancelReturned(t *testing.T, open Open, traits queue.Traits) {
	if traits.NoCancel {
		return
	}
	r := NewRig(t, open, Bounds)
	for range 10 {
		j := r.Job(nil)
		l := r.Lease()
		returned := make(chan struct{})
		go func() {
			_ = l.Return(t.Context()) // or it has ended
			close(returned)
		}()
		ended, err := r.Gateway.Cancel(t.Context(), j, true)
		<-returned
		if !ended || err != nil {
			t.Errorf("%v, %v", ended, err)
		}
		if end := r.End(j); end.State != queue.Cancelled {
			t.Errorf("%+v", end)
		}
	}
	r.None()
}
