package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A gateway is idle most of the time, and a collection that no allocation asks
// for happens seldom: without more, an idle process keeps what its last burst
// of calls left behind, which can be more than all that it needs. So it gives
// that back when it comes to rest.

const (
	// restTick is how often is looked whether the process rests.
	restTick = 250 * time.Millisecond
	// restAllocated is what a resting process allocates at most in a tick.
	restAllocated = 64 << 10
	// restGarbage is from what amount of garbage a collection is worth it.
	restGarbage = 4 << 20
)

// memory is what the process has allocated in all, what it holds, and how much
// of that was in use at the last collection, in bytes.
type memory struct{ allocated, held, live uint64 }

// worthCollecting tells whether a process rests between two ticks and has
// garbage enough, for its size, to be worth a collection.
func worthCollecting(before, now memory) bool {
	garbage := now.held - min(now.held, now.live)
	return now.allocated-before.allocated <= restAllocated && garbage >= restGarbage && garbage >= now.live/4
}

// rest gives memory back whenever the process comes to rest, until the context
// ends.
func rest(ctx context.Context) error {
	tick := time.NewTicker(restTick)
	defer tick.Stop()
	before := memoryNow()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := memoryNow()
		if worthCollecting(before, now) {
			debug.FreeOSMemory()
			now = memoryNow()
		}
		before = now
	}
}

func memoryNow() memory {
	samples := [...]metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples[:])
	return memory{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()}
}
