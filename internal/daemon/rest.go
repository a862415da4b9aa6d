package daemon

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/toolgate/toolgate/internal/heap"
)

// A gateway is idle most of the time, and a collection that no allocation asks
// for happens seldom: without more, an idle process keeps what its last burst
// of calls left behind, which can be more than all that it needs. So it gives
// that back when it comes to rest.

const (
	// restTick is how often is looked whether the process rests; it has come to
	// rest when it did for restTicks in a row. Sooner would be a loss: memory
	// that is given back is taken again with the next call.
	restTick  = time.Second
	restTicks = 2
	// restAllocated is what a resting process allocates at most in a tick.
	restAllocated = 64 << 10
	// restWaste is from what amount of memory to give back a collection is worth
	// it.
	restWaste = 1 << 20
)

// memory is what the process has allocated in all, what it holds, how much of
// that was in use at the last collection, and what it has free but not given
// back, in bytes.
type memory struct{ allocated, held, live, free uint64 }

// worthCollecting tells whether a process has enough to give back, for its
// size, to be worth a collection.
func worthCollecting(now memory) bool {
	waste := now.held - min(now.held, now.live) + now.free
	used := now.live - min(now.live, uint64(len(heap.Floor)))
	return waste >= restWaste && waste >= used/4
}

// rest gives memory back whenever the process comes to rest, until the context
// ends.
func rest(ctx context.Context) error {
	tick := time.NewTicker(restTick)
	defer tick.Stop()
	before, quiet := memoryNow(), 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := memoryNow()
		if quiet++; now.allocated-before.allocated > restAllocated {
			quiet = 0
		}
		if quiet >= restTicks && worthCollecting(now) {
			runtime.GC() // what lies in pools is given up by the second collection
			debug.FreeOSMemory()
			now, quiet = memoryNow(), 0
		}
		before = now
	}
}

func memoryNow() memory {
	samples := [...]metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples[:])
	return memory{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()}
}
