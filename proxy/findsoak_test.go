package proxy

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/findview"
)

var (
	findTools = flag.Int("find-tools", 400, "tools of TestFindWhileToolsChange")
	findTime  = flag.Duration("find-time", time.Second, "how long TestFindWhileToolsChange changes them")
)

// What happens in TestFindWhileToolsChange.
const (
	soakServers = 20
	soakChange  = 10 * time.Millisecond // between two changes of one tool
	soakSearch  = 5 * time.Millisecond  // between two searches
	// soakSearchers is how many search at once.
	soakSearchers = 4
	// soakChanging is how many times the heap before the heap may be while tools change: the
	// catalog, the older one of the index and the index, each once more while the next is made.
	soakChanging = 3
	// soakMemory is the same for the end.
	soakMemory = 2
	// soakSlack is what a small heap may have besides: what is allocated while a collection
	// marks counts as in use.
	soakSlack = 48 << 20
)

// changing are servers of which one tool after the other changes.
type changing struct {
	r        *findRig
	backends []*script
	made     int
}

func newChanging(t *testing.T, tools int) *changing {
	c := &changing{}
	items := manyTools(tools)
	for i, item := range items {
		items[i] = strings.Replace(item, "Can ", "Everywhere can ", 1)
	}
	n := 0
	for part := range slices.Chunk(items, tools/soakServers) {
		c.backends = append(c.backends, newScript(t, fmt.Sprintf("s%d", n), mcp.Legacy, part...))
		n++
	}
	c.r = &findRig{newRig(t, mounted(c.backends...), func(o *Options, _ *Config) { o.Auditor = forgetful{} }).run(), t}
	c.r.finder.index.Await(t.Context())
	return c
}

// next changes the description of one tool.
func (c *changing) next(t *testing.T) {
	b := c.backends[c.made%len(c.backends)]
	old, _ := b.Listing()
	tools := slices.Clone(old.Items[mcp.Tool])
	at := c.made / len(c.backends) % len(tools)
	raw := mcp.SetMember(tools[at].Raw, "description", mcp.Quote(fmt.Sprintf("Everywhere does thing%d.", c.made)))
	item, err := mcp.ParseItem(mcp.Tool, raw)
	if err != nil {
		t.Error(err)
		return
	}
	tools[at] = item
	listing := *old
	listing.Items = maps.Clone(old.Items)
	listing.Items[mcp.Tool] = tools
	b.mu.Lock()
	b.listing = &listing
	b.mu.Unlock()
	c.r.Changed(b.name)
	c.made++
}

// search finds something that every tool has, and returns what is wrong with the answer:
// it has to count all tools, whichever of them has just changed.
func (c *changing) search(want int) string {
	got := c.r.call(findview.FindTools, `{"query":"everywhere","limit":1,"detail":"names"}`)
	if more := fmt.Sprintf(`"more":%d}`, want-1); !strings.Contains(got, more) || strings.Contains(got, `"isError":true`) {
		return fmt.Sprintf("no %s in %s", more, got)
	}
	return ""
}

// every calls a function at an interval until the context ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// heapInUse is what a collection has found in use, in bytes. What was allocated since then is
// not in it: most of that is garbage.
func heapInUse() int64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtime.GC()
	metrics.Read(live)
	return int64(live[0].Value.Uint64())
}

// TestFindWhileToolsChange searches while one tool after the other changes. No search
// fails, and none sees a part of the catalog. The heap stays within a bound, and
// afterwards it is what it was before.
func TestFindWhileToolsChange(t *testing.T) {
	t.Parallel()
	tools := max(*findTools, soakServers) / soakServers * soakServers
	c := newChanging(t, tools)
	if text := c.search(tools); text != "" {
		t.Fatal(text)
	}
	before := heapInUse()
	ctx, cancel := context.WithTimeout(t.Context(), *findTime)
	defer cancel()
	var searches, wrong atomic.Int64
	var heap []int64
	var running sync.WaitGroup
	running.Go(func() { every(ctx, soakChange, func() { c.next(t) }) })
	for range soakSearchers {
		running.Go(func() {
			every(ctx, soakSearchers*soakSearch, func() {
				searches.Add(1)
				if text := c.search(tools); text != "" && wrong.Add(1) < 5 {
					t.Error(text)
				}
			})
		})
	}
	running.Go(func() { every(ctx, *findTime/20, func() { heap = append(heap, heapInUse()) }) })
	running.Wait()
	if searches.Load() == 0 || c.made == 0 || len(heap) < 2 {
		t.Fatalf("%d searches, %d changes, the heap was looked at %d times", searches.Load(), c.made, len(heap))
	}
	first, second := slices.Max(heap[:len(heap)/2]), slices.Max(heap[len(heap)/2:])
	last := fmt.Sprintf("thing%d", c.made-1)
	testwait.Until(t, time.Minute, "the last change is found", func() bool {
		return strings.Contains(c.r.call(findview.FindTools, `{"query":"`+last+`","limit":1}`), last)
	})
	after := heapInUse()
	testwait.Within(30*time.Second, func() bool {
		if text := c.search(tools); text != "" {
			t.Error(text)
		}
		after = heapInUse()
		return after <= max(soakMemory*before, before+soakSlack)
	})
	mb := func(n int64) float64 { return float64(n) / (1 << 20) }
	t.Logf("%d tools, %d changes and %d searches in %v, %d of them wrong; the heap has %.1f MB before, at most %.1f in the first and %.1f in the second half, and %.1f after",
		tools, c.made, searches.Load(), *findTime, wrong.Load(), mb(before), mb(first), mb(second), mb(after))
	if after > max(soakMemory*before, before+soakSlack) || max(first, second) > max(soakChanging*before, before+soakSlack) {
		t.Error("the heap has grown")
	}
}
