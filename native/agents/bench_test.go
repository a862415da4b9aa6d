package agents_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/toolgate/toolgate/native/agents/model"
)

// BenchmarkTurn is what the loop itself costs for a turn with three calls, in runs of 20
// turns. The bar is 1 ms.
func BenchmarkTurn(b *testing.B) {
	const most = 20
	b.ReportAllocs()
	for b.Loop() {
		r := newRig(func(n int, _ *model.Request) (*model.Turn, error) {
			if n == most-1 {
				return says("done"), nil
			}
			return calls(`fs__read {"path":"a"}`, `fs__read {"path":"b"}`, `fs__write {"path":"c"}`), nil
		})
		r.Settings.MaxTurns = most
		if o, err := r.Do(b.Context()); err != nil || o.Turns != most {
			b.Fatal(o, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/most, "ns/turn")
}

// BenchmarkWaitingRuns is what a run needs while it waits for its model. The bar is 40 KB.
func BenchmarkWaitingRuns(b *testing.B) {
	const all = 500
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		asked, ended := make(chan struct{}, all), make(chan struct{}, all)
		for i := range all {
			r := newRig(func(n int, _ *model.Request) (*model.Turn, error) {
				if n == 0 {
					return calls("fs__read", "fs__write"), nil
				}
				asked <- struct{}{}
				return nil, nil // it hangs
			})
			r.ID = fmt.Sprint("run_", i)
			go func() {
				_, _ = r.Do(ctx)
				ended <- struct{}{}
			}()
		}
		for range all {
			<-asked
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		heap, stack := int64(after.HeapInuse)-int64(before.HeapInuse), int64(after.StackInuse)-int64(before.StackInuse)
		b.ReportMetric(float64(heap+stack)/all/1024, "KB/run")
		cancel()
		for range all {
			<-ended
		}
	}
}
