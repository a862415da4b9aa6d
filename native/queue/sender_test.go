package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/native/queue/memory"
)

var queueBounds = queue.Bounds{Waiting: 10, WaitingPerPrincipal: 5, Keep: time.Minute, Lease: 4 * time.Second, Attempts: 2}

// sent is a gateway with workers elsewhere: they are in the same process, but all that
// goes between them is in the engine.
type sent struct {
	*queue.Sender
	engine *memory.Engine
	here   *server
	box    *queue.Box
	log    bytes.Buffer
}

func box(t *testing.T, key byte) *queue.Box {
	b, err := queue.NewBox("gpu", bytes.Repeat([]byte{key}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sending(t *testing.T) *sent {
	keys, err := seal.NewKeyring(seal.Key{ID: "k", Secret: bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	s := &sent{engine: memory.New(queueBounds), here: &server{}, box: box(t, 1)}
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	s.Sender = &queue.Sender{Server: s.here, Engine: s.engine, Keys: keys, Log: log, Box: func(tool string) *queue.Box {
		if tool == "slow" {
			return s.box
		}
		return nil
	}}
	if err := s.engine.Declare(t.Context(), "gpu", s.box.ID()); err != nil {
		t.Fatal(err)
	}
	return s
}

// worker returns a worker that runs calls on a server of its own.
func (s *sent) worker(b *queue.Box, own *server) *queue.Worker {
	return &queue.Worker{
		Name: "w", Engine: s.engine, Boxes: []*queue.Box{b}, Capacity: 2, Lease: queueBounds.Lease, Drain: 10 * time.Second, Log: slog.New(slog.DiscardHandler),
		Run: func(ctx context.Context, w *queue.Work, notify func(string, []byte)) (mcp.Answer, error) {
			notify(mcp.NotifyProgress, []byte(`{"progress":1}`))
			return own.Call(ctx, &mcp.Call{Method: mcp.MethodToolsCall, Params: fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, w.Tool, w.Arguments)})
		},
	}
}

// A call runs at the worker, and its answers and reports come back as they are.
func TestSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, there := sending(t), &server{}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.worker(s.box, there).Serve(ctx) }()
		for what, want := range map[string]string{
			"": `{"content":[]}`, "says no": `{"content":[],"isError":true}`, "fault": "a fault (-32000)", "fail": "It is away.",
		} {
			var heard []string
			c := call("me", what)
			c.Notify = func(_ string, params []byte) { heard = append(heard, string(params)) }
			got, err := s.Call(t.Context(), c)
			text := string(got.Result)
			if got.Fault != nil {
				text = got.Fault.Error()
			}
			if err != nil {
				text = err.Error()
			}
			if text != want || len(heard) != 1 || heard[0] != `{"progress":1}` {
				t.Errorf("%q: %s, %q", what, text, heard)
			}
		}
		if n, _ := s.here.counts(); n != 0 {
			t.Errorf("%d calls ran at the gateway", n)
		}
		quick := call("me", "")
		quick.Params = []byte(`{"name":"quick"}`)
		if _, err := s.Call(t.Context(), quick); err != nil {
			t.Error(err)
		}
		if n, _ := s.here.counts(); n != 1 {
			t.Errorf("%d calls ran at the gateway", n)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// Who waits for an answer comes first, whether or not the client wants progress.
func TestSenderPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sending(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = s.worker(s.box, &server{}).Serve(ctx) }()
		for _, unattended := range []bool{false, true} {
			var sent []int
			s.Sent = func(j *queue.Job, _, _ string) func() {
				sent = append(sent, int(j.Priority))
				return func() {}
			}
			c := call("me", "")
			c.Notify, c.Unattended = nil, unattended
			if _, err := s.Call(t.Context(), c); err != nil {
				t.Error(err)
			}
			if len(sent) != 1 || (sent[0] == queue.MaxPriority) == unattended {
				t.Errorf("unattended is %v: sent with the priorities %v", unattended, sent)
			}
		}
	})
}

// A caller who leaves takes the job along, before and after its start.
func TestSenderCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, there := sending(t), &server{}
		left := errors.New("the caller has left")
		leave := func() {
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() { _, err := s.Call(ctx, call("me", "")); ended <- err }()
			synctest.Wait()
			cancel(left)
			if err := <-ended; !errors.Is(err, left) {
				t.Error(err)
			}
		}
		leave()
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.worker(s.box, there).Serve(ctx) }()
		synctest.Wait()
		if n, _ := there.counts(); n != 0 {
			t.Errorf("%d calls that were taken back run", n)
		}
		leave()
		began := time.Now()
		stop()
		if err := <-served; err != nil || time.Since(began) > 0 {
			t.Errorf("the call goes on at the worker for %v: %v", time.Since(began), err)
		}
	})
}

// What waits is decided on again, and taken back.
func TestSenderDecidesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sending(t)
		c := call("me", "")
		c.StillAllowed = func(context.Context) error { return errDenied }
		if _, err := s.Call(t.Context(), c); !errors.Is(err, errDenied) {
			t.Error(err)
		}
	})
}

// A lost worker is one error that says what is known.
func TestSenderLosesWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sending(t)
		ended := make(chan error, 1)
		go func() { _, err := s.Call(t.Context(), call("me", "")); ended <- err }()
		if _, err := s.engine.Lease(t.Context(), "gpu", "w", 1); err != nil {
			t.Fatal(err)
		}
		f, ok := errors.AsType[*mcp.Failure](<-ended)
		if !ok || !f.Delivered || !strings.Contains(f.Reason, "must not run twice") {
			t.Errorf("%+v", f)
		}
	})
}

// A full queue refuses before anything is delivered, so that nothing is charged.
func TestSenderIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sending(t)
		ctx, stop := context.WithCancel(t.Context())
		for range 5 {
			go func() { _, _ = s.Call(ctx, call("me", "")) }()
		}
		synctest.Wait()
		if _, err := s.Call(t.Context(), call("me", "")); !isBusy(err) {
			t.Errorf("one more: %v", err)
		}
		stop()
		synctest.Wait()
	})
}

// A worker with another key is refused, and what it leased first is given back.
func TestWorkerWithAWrongKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, there := sending(t), &server{}
		err := s.worker(box(t, 2), there).Serve(t.Context())
		if _, ok := errors.AsType[*queue.KeyError](err); !ok || !strings.Contains(err.Error(), "gpu") {
			t.Error(err)
		}
		answered := make(chan error, 1)
		ask := func() { _, err := s.Call(t.Context(), call("me", "")); answered <- err }
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.worker(s.box, there).Serve(ctx) }()
		synctest.Wait()
		other := *s.Sender
		other.Box = func(string) *queue.Box { return box(t, 2) }
		go func() { _, err := other.Call(t.Context(), call("me", "")); answered <- err }()
		if f, ok := errors.AsType[*mcp.Failure](<-answered); !ok || f.Delivered || !strings.Contains(f.Reason, "another key") {
			t.Errorf("a job that no worker can open: %+v", f)
		}
		go ask()
		if err := <-answered; err != nil {
			t.Errorf("the job behind it: %v", err)
		}
		if n, _ := there.counts(); n != 1 {
			t.Errorf("%d jobs ran", n)
		}
		if err := s.engine.Declare(t.Context(), "gpu", box(t, 2).ID()); err != nil { // the keys are being changed
			t.Fatal(err)
		}
		go func() { _, err := other.Call(t.Context(), call("me", "")); answered <- err }()
		if _, ok := errors.AsType[*queue.KeyError](<-served); !ok {
			t.Error("a worker with the old key goes on")
		}
		stop()
		ctx, stop = context.WithCancel(t.Context())
		go func() { served <- s.worker(box(t, 2), there).Serve(ctx) }()
		if err := <-answered; err != nil {
			t.Errorf("the job that was given back: %v", err)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// What a worker makes up is no answer, and what somebody else puts into the queue is no
// job.
func TestSealedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, there := sending(t), &server{}
		ended := make(chan error, 1)
		go func() { _, err := s.Call(t.Context(), call("me", "secret words")); ended <- err }()
		got, err := s.engine.Lease(t.Context(), "gpu", "w", 1)
		if err != nil {
			t.Fatal(err)
		}
		if body := got[0].Job().Body; bytes.Contains(body, []byte("secret words")) || bytes.Contains(body, []byte("slow")) {
			t.Errorf("%s can be read", body)
		}
		if err := got[0].Finish(t.Context(), queue.End{State: queue.Done, Body: []byte(`{"content":[]}`)}); err != nil {
			t.Fatal(err)
		}
		if f, ok := errors.AsType[*mcp.Failure](<-ended); !ok || f.Kind != mcp.FailProtocol || !f.Delivered {
			t.Errorf("%+v", f)
		}
		forged := &queue.Job{ID: "forged", Queue: "gpu", Key: s.box.ID(), Deadline: time.Now().Add(time.Hour), Body: got[0].Job().Body}
		if err := s.engine.Enqueue(t.Context(), forged); err != nil { // the body of another job
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.worker(s.box, there).Serve(ctx) }()
		if end, err := s.engine.Await(t.Context(), forged, nil); err != nil || end.State != queue.Dead {
			t.Errorf("%+v, %v", end, err)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if n, _ := there.counts(); n != 0 {
			t.Error("a forged job runs")
		}
	})
}

// A worker waits for a queue that is not there, and says which.
func TestWorkerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sending(t)
		engine := memory.New(queueBounds)
		w := s.worker(s.box, &server{})
		var log bytes.Buffer
		w.Engine, w.Log = engine, slog.New(slog.NewTextHandler(&log, nil))
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- w.Serve(ctx) }()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := strings.Count(log.String(), "the worker waits for its queue"); n != 1 || !strings.Contains(log.String(), "queue=gpu") {
			t.Errorf("%s", log.String())
		}
		if err := engine.Declare(t.Context(), "gpu", s.box.ID()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !strings.Contains(log.String(), "the worker waits for jobs") {
			t.Errorf("%s", log.String())
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
