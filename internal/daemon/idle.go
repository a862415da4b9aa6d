package daemon

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/toolgate/toolgate/internal/heap"
)

// A gateway is idle most of the time, and garbage is rarely collected while nothing is
// allocated: an idle process would keep what its last burst of calls left behind, which
// can be more than all that it needs. So it collects garbage and gives memory back to the
// system once it is idle.

const (
	// idleTick is how often to look whether the process is idle, and idleTicks how many
	// idle ticks in a row it takes. Sooner would be a loss: memory that is given back is
	// taken again with the next call.
	idleTick  = time.Second
	idleTicks = 2
	// idleAllocated is what an idle process allocates at most in a tick.
	idleAllocated = 64 << 10
	// leastWaste is the least memory to give back that is worth a collection.
	leastWaste = 1 << 20
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
	return waste >= leastWaste && waste >= used/4
}

// collectWhenIdle gives memory back whenever the process becomes idle, until the context
// ends.
func collectWhenIdle(ctx context.Context) error {
	tick := time.NewTicker(idleTick)
	defer tick.Stop()
	before, quiet := memoryNow(), 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := memoryNow()
		if quiet++; now.allocated-before.allocated > idleAllocated {
			quiet = 0
		}
		if quiet >= idleTicks && worthCollecting(now) {
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
