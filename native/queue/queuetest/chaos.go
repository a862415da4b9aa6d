package queuetest

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/native/queue"
)

var kills = flag.Int("kills", 40, "how often TestChaos kills a gateway or a worker")

// crew are workers that are killed at every step of a job.
type crew struct {
	t       *testing.T
	connect func() queue.Engine
	queue   string
	killed  atomic.Int64

	mu  sync.Mutex
	ran map[string]int // by job
}

// work leases and runs jobs until it is killed or ctx ends.
func (c *crew) work(ctx context.Context) {
	e := c.connect()
	defer e.Close()
	for ctx.Err() == nil {
		got, err := e.Lease(ctx, c.queue, "one name", 3)
		if err != nil {
			continue
		}
		for _, l := range got {
			fate := rand.IntN(8)
			if c.killed.Load() >= int64(*kills) {
				fate = 7 // what is left is done in peace
			}
			if fate == 0 { // between the lease and the start
				c.killed.Add(1)
				return
			}
			_ = l.Beat(ctx)
			c.mu.Lock()
			c.ran[l.Job().ID]++
			c.mu.Unlock()
			if fate == 1 { // in the middle
				c.killed.Add(1)
				return
			}
			_ = l.Progress(ctx, []byte("half"))
			if fate == 2 { // before the end
				c.killed.Add(1)
				return
			}
			_ = l.Finish(ctx, done(l.Job().ID))
			if fate == 3 { // after the end, with what else it has leased
				c.killed.Add(1)
				return
			}
		}
	}
}

// Chaos kills workers and gateways at every step. Every job ends once, and what is not
// idempotent runs at most once. It runs in parallel.
func Chaos(t *testing.T, open Open) {
	t.Parallel()
	b := Bounds
	b.Lease, b.Attempts = 700*time.Millisecond, 3
	r := NewRig(t, open, b)
	traits := r.Gateway.Traits()
	again := r.connect
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &crew{t: t, connect: again, queue: r.Queue, ran: make(map[string]int)}
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for ctx.Err() == nil {
				c.work(ctx)
			}
		})
	}
	var mu sync.Mutex
	ends := make(map[queue.State]int)
	jobs := 0
	var gateways sync.WaitGroup
	for i := range 8 {
		gateways.Go(func() {
			e := again()
			defer func() { _ = e.Close() }()
			for c.killed.Load() < int64(*kills) {
				j := r.New(func(j *queue.Job) { j.Repeats = i%2 == 0 })
				if err := e.Enqueue(ctx, j); err != nil {
					t.Error(err)
					return
				}
				if rand.IntN(10) == 0 && !traits.Requeued { // the gateway is killed, and another asks for the job
					c.killed.Add(1)
					_ = e.Close()
					e = again()
				}
				waiting, enough := context.WithTimeout(ctx, patience)
				end, err := e.Await(waiting, j, func([]byte) {})
				enough()
				if err != nil {
					t.Errorf("a job is lost: %v", err)
					return
				}
				c.mu.Lock()
				ran := c.ran[j.ID]
				c.mu.Unlock()
				switch {
				case !j.Repeats && ran > 1:
					t.Errorf("what must not be repeated ran %d times: %+v", ran, end)
				case end.State == queue.Done && (ran == 0 || string(end.Body) != j.ID):
					t.Errorf("%d runs made %+v", ran, end)
				case j.Repeats && end.State == queue.Lost, !j.Repeats && end.State == queue.Dead, end.State == queue.Expired:
					t.Errorf("it ended as %+v, repeats: %v", end, j.Repeats)
				}
				mu.Lock()
				ends[end.State]++
				jobs++
				mu.Unlock()
			}
		})
	}
	gateways.Wait()
	cancel()
	workers.Wait()
	t.Logf("%d kills, %d jobs: %v", c.killed.Load(), jobs, ends)
}
