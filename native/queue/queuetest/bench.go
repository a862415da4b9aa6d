package queuetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/native/queue"
)

// Bench measures an engine: jobs a second from end to end with 256 callers and one worker
// of 256, and how long a job takes to a worker that waits.
func Bench(b *testing.B, open Open) {
	b.Run("EndToEnd", func(b *testing.B) {
		r := NewRig(b, open, Bounds)
		ctx, cancel := context.WithCancel(b.Context())
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				for ctx.Err() == nil {
					got, _ := r.Worker.Lease(ctx, r.Queue, "w", 64)
					for _, l := range got {
						workers.Go(func() {
							if err := l.Finish(ctx, done("result")); err != nil && ctx.Err() == nil {
								b.Error(err)
							}
						})
					}
				}
			})
		}
		var left atomic.Int64
		left.Store(int64(b.N))
		var callers sync.WaitGroup
		b.ResetTimer()
		for i := range 256 {
			callers.Go(func() {
				for left.Add(-1) >= 0 {
					j := r.New(func(j *queue.Job) { j.Principal = fmt.Sprint("p", i%16) })
					if err := r.Gateway.Enqueue(ctx, j); err != nil {
						b.Error(err)
						return
					}
					if end, err := r.Gateway.Await(ctx, j, func([]byte) {}); err != nil || end.State != queue.Done {
						b.Error(end, err)
						return
					}
				}
			})
		}
		callers.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		b.StopTimer()
		cancel()
		workers.Wait()
	})
	b.Run("ToWaitingWorker", func(b *testing.B) {
		r := NewRig(b, open, Bounds)
		var took []time.Duration
		for b.Loop() {
			came := make(chan queue.Lease)
			go func() {
				got, err := r.Worker.Lease(b.Context(), r.Queue, "w", 1)
				if err != nil {
					b.Error(err)
					close(came)
					return
				}
				came <- got[0]
			}()
			began := time.Now()
			r.Job(nil)
			l := <-came
			took = append(took, time.Since(began))
			if err := l.Finish(b.Context(), done("")); err != nil {
				b.Error(err)
			}
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
	})
}

// Backlog queues many jobs and reports the memory of a gateway that has added them.
func Backlog(b *testing.B, open Open, jobs int) {
	for range b.N {
		r := NewRig(b, open, queue.Bounds{Waiting: jobs, WaitingPerPrincipal: jobs, Keep: time.Minute, Lease: time.Minute, Attempts: 2})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var next atomic.Int64
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				for i := next.Add(1); i <= int64(jobs); i = next.Add(1) {
					if err := r.Gateway.Enqueue(b.Context(), r.New(func(j *queue.Job) { j.Principal = fmt.Sprint("p", i%100) })); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/1024, "KiB")
		b.ReportMetric(float64(jobs)/b.Elapsed().Seconds(), "added/s")
	}
}
