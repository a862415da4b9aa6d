package memory_test

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/native/queue/memory"
	"github.com/toolgate/toolgate/native/queue/queuetest"
)

func TestMain(m *testing.M) {
	testwait.AtOnce(8, 24)
	os.Exit(m.Run())
}

func open(_ testing.TB, b queue.Bounds) func() queue.Engine {
	e := memory.New(b)
	return func() queue.Engine { return e }
}

func TestSuite(t *testing.T) { queuetest.Run(t, open) }

func BenchmarkEngine(b *testing.B) { queuetest.Bench(b, open) }

func TestBacklog(t *testing.T) { queuetest.Backlog(t, open, 1200) }

// A worker can report before the gateway that added the job waits for it.
func TestReportBeforeAnybodyWaits(t *testing.T) {
	e := memory.New(queue.Bounds{Waiting: 1, WaitingPerPrincipal: 1, Keep: time.Minute, Lease: time.Minute, Attempts: 1})
	j := &queue.Job{ID: "a", Queue: "gpu", Deadline: time.Now().Add(time.Minute)}
	if err := e.Enqueue(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	leases, err := e.Lease(t.Context(), "gpu", "w", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(leases[0].Progress(t.Context(), []byte("half")), leases[0].Finish(t.Context(), queue.End{State: queue.Done})); err != nil {
		t.Fatal(err)
	}
	var heard []string
	if _, err := e.Await(t.Context(), j, func(body []byte) { heard = append(heard, string(body)) }); err != nil || !slices.Equal(heard, []string{"half"}) {
		t.Errorf("%q, %v", heard, err)
	}
}
