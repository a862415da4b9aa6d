package queuetest

import (
	"context"
	"fmt"
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
