package headroom

import (
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"
)

// Names of the memory meters.
const (
	ofProcess = "memory of the process"
	ofCgroup  = "memory of the cgroup"
)

// MemoryLimit returns how many bytes this process may use: the least of GOMEMLIMIT and
// the limits of its cgroups. 0 means no limit.
func MemoryLimit() uint64 { return memoryLimitIn("/") }

func memoryLimitIn(root string) uint64 {
	least := runtimeLimit()
	for _, g := range limited(root) {
		if _, limit, err := g.read(); err == nil && limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least
}

// memoryMargin is how far memory must fall below the threshold before a shortage can
// end, in percent of the limit.
const memoryMargin = 10

// Memory returns a meter of the memory of this process against a limit in bytes: what
// the Go runtime holds and a collection could not free. It is tight at percent of the
// limit. A limit of 0 stands for GOMEMLIMIT; ok is false without one.
func Memory(limit uint64, percent int) (m Meter, ok bool) {
	if limit == 0 {
		limit = runtimeLimit()
	}
	read := func() (Reading, error) { return used(inUse(), limit, percent), nil }
	return Meter{Name: ofProcess, Read: read}, limit > 0
}

// runtimeLimit is GOMEMLIMIT, 0 for none.
func runtimeLimit() uint64 {
	limit := debug.SetMemoryLimit(-1) // a negative value changes nothing
	if limit <= 0 || limit == math.MaxInt64 {
		return 0
	}
	return uint64(limit)
}

// inUse returns what the runtime counts against its limit, less what the next
// collection frees: a heap may well grow up to the limit between two collections.
func inUse() uint64 {
	samples := [...]metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples[:])
	total, released, free, objects, live := samples[0].Value.Uint64(), samples[1].Value.Uint64(),
		samples[2].Value.Uint64(), samples[3].Value.Uint64(), samples[4].Value.Uint64()
	spare := released + free + objects - min(objects, live)
	return total - min(total, spare)
}

// used returns the reading for n used bytes of a limit.
func used(n, limit uint64, percent int) Reading {
	share := float64(n) / float64(limit) * 100
	r := Reading{Text: fmt.Sprintf("%s of %s are in use (%.0f%%), the threshold is %d%%", bytes(n), bytes(limit), share, percent)}
	switch {
	case share >= float64(percent):
		r.Level = Tight
	case share <= float64(percent-memoryMargin):
		r.Level = Clear
	}
	return r
}

// bytes formats an amount for people.
func bytes(n uint64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%dGiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%dMiB", n>>20)
	default:
		return fmt.Sprintf("%dKiB", n>>10)
	}
}
