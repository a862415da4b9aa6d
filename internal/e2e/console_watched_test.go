//go:build e2e && unix

package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var consoleWatch = flag.Duration("console-watch", 5*time.Second, "how long browsers watch calls in TestConsoleWatched")

const (
	watchers     = 10
	watchCallers = 4
	// quietCalls is how many calls are made before anybody watches, for each second of watching.
	quietCalls = 100
	// calmPause leaves the processors to the browsers while they open their pages.
	calmPause = 50 * time.Millisecond
	// shownLive is how many calls the live view shows.
	shownLive = 20
	// maxElements bounds the document of the live view. Figures of memory are printed.
	maxElements = 1500
)

// load makes calls as fast as they are answered, and keeps how long each took by phase.
type load struct {
	phase atomic.Pointer[took]
	wg    sync.WaitGroup
	calm  atomic.Bool // each caller pauses after a call
}

// took is how long the calls of one phase took, and what the gateway held meanwhile.
type took struct {
	mu     sync.Mutex
	all    []time.Duration
	memory []float64 // in MB, every memoryEvery
	began  time.Time
	ended  time.Time
}

// memoryEvery is how often the memory of the gateway is read. One reading says little: it
// grows until garbage is collected.
const memoryEvery = 100 * time.Millisecond

// begin begins a phase, and ends the one before.
func (l *load) begin() *took {
	p := &took{began: time.Now()}
	if before := l.phase.Swap(p); before != nil {
		before.mu.Lock()
		before.ended = p.began
		before.mu.Unlock()
	}
	return p
}

// calls is how many calls there were.
func (p *took) calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}

func (p *took) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.all)
	if len(p.all) == 0 {
		return "no calls"
	}
	at := func(q float64) time.Duration { return p.all[int(q*float64(len(p.all)-1))].Round(10 * time.Microsecond) }
	slices.Sort(p.memory)
	memory := 0.0
	if n := len(p.memory); n > 0 {
		memory = p.memory[n/2]
	}
	return fmt.Sprintf("%.0f calls/s, p50 %s, p99 %s; the gateway has %.0f MB (median of %d readings)",
		float64(len(p.all))/p.ended.Sub(p.began).Seconds(), at(0.5), at(0.99), memory, len(p.memory))
}

// weigh reads the memory of the gateway until ctx ends.
func (l *load) weigh(ctx context.Context, t *testing.T, w *watched) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, p := w.resident(t), l.phase.Load()
		p.mu.Lock()
		p.memory = append(p.memory, now)
		p.mu.Unlock()
	}
}

// run makes calls until ctx ends.
func (l *load) run(ctx context.Context, t *testing.T, w *watched) {
	for caller := range watchCallers {
		l.wg.Go(func() {
			c := &raw{url: w.mcp, key: ownerKey}
			for n := 0; ctx.Err() == nil; n++ {
				began := time.Now()
				_, err := c.callTool(ctx, "demo__add", object{"a": n, "b": caller})
				if err != nil && ctx.Err() == nil {
					t.Errorf("a call while browsers watch: %v", err)
					return
				}
				p := l.phase.Load()
				p.mu.Lock()
				p.all = append(p.all, time.Since(began))
				p.mu.Unlock()
				if l.calm.Load() {
					select {
					case <-time.After(calmPause):
					case <-ctx.Done():
					}
				}
			}
		})
	}
}

var residentLine = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// resident is the memory of the gateway, in MB.
func (w *watched) resident(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.proc.cmd.Process.Pid))
	if err != nil {
		return 0 // a system without it prints no figure
	}
	found := residentLine.FindSubmatch(text)
	if found == nil {
		t.Errorf("no memory in %s", text)
		return 0
	}
	kb, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Errorf("the memory of the gateway: %v", err)
	}
	return kb / 1024
}

// eventually looks again and again whether ok returns true, until ctx ends.
func eventually(ctx context.Context, ok func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// appears waits until a file is there.
func appears(ctx context.Context, file string) bool {
	return eventually(ctx, func() bool { _, err := os.Stat(file); return err == nil })
}

// TestConsoleWatched has ten Chromium pages watch calls as fast as they can be made. Each page
// keeps as many calls as it shows and one chart, and its document does not grow. Rates, times and memory are
// printed; -console-watch 10m watches for longer.
func TestConsoleWatched(t *testing.T) {
	t.Parallel()
	need(t, browser())
	auth := object{"keys": []object{apiKey("owner", ownerKey, "ann", "acme")}, "viewers": []object{{"subject": "ann", "tenant": "acme"}}}
	w := consoleGateway(t, newDesk(), object{"auth": auth, "budgets": []object{}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mark := func(name string) string { return filepath.Join(w.dir, name) }
	var (
		l              load
		quiet, watched *took
		steps          sync.WaitGroup
	)
	steps.Go(func() { // ends with ctx at the latest
		if !appears(ctx, mark("opened")) {
			return
		}
		quiet = l.begin()
		l.run(ctx, t, w)
		l.wg.Go(func() { l.weigh(ctx, t, w) })
		enough := int(consoleWatch.Seconds() * quietCalls)
		if !eventually(ctx, func() bool { return quiet.calls() >= enough }) {
			return
		}
		l.begin() // pages that are opened cost time of their own
		l.calm.Store(true)
		if err := os.WriteFile(mark("go"), nil, 0o600); err != nil {
			t.Errorf("telling the browsers to go on: %v", err)
		}
		if appears(ctx, mark("ready")) {
			l.calm.Store(false)
			watched = l.begin()
		}
	})
	defer func() {
		cancel()
		steps.Wait()
		l.wg.Wait()
	}()
	b := w.browseFor(t, 2*browseTimeout+2**consoleWatch, "console_watched.mjs", object{
		"browsers": watchers, "key": ownerKey, "opened": mark("opened"), "go": mark("go"), "ready": mark("ready"), "watch": consoleWatch.Milliseconds(), "samples": 5,
	})
	if b.Facts["samples"] == nil {
		t.Fatal("the browsers have not watched")
	}
	if got := string(b.Facts["charts"]); got != "1" && got != "2" { // one may just be drawn anew
		t.Errorf("a page that draws one chart again and again keeps %s", got)
	}
	steps.Wait()
	l.begin()
	cancel()
	l.wg.Wait()

	var samples [][]struct{ Heap, Elements float64 }
	var seen []struct {
		Rows   int
		Latest string
	}
	if err := json.Unmarshal(b.Facts["samples"], &samples); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b.Facts["seen"], &seen); err != nil || len(seen) != watchers || len(samples) < 2 {
		t.Fatalf("%d pages, %d samples, %v", len(seen), len(samples), err)
	}
	for i, s := range seen {
		if s.Rows != shownLive || s.Latest == "" {
			t.Errorf("page %d shows %d calls, the latest %q", i, s.Rows, s.Latest)
		}
	}
	fmt.Printf("nobody watches: %s\n", quiet)
	fmt.Printf("%d browsers watch for %s: %s\n", watchers, *consoleWatch, watched)
	for i, of := range samples {
		heap, elements := 0.0, 0.0
		for _, page := range of {
			heap, elements = heap+page.Heap, max(elements, page.Elements)
		}
		fmt.Printf("after %3d %% of the time: %.2f MB of objects in a page, at most %.0f elements\n", i*100/(len(samples)-1), heap/watchers/(1<<20), elements)
		if elements > maxElements {
			t.Errorf("a document has %.0f elements", elements)
		}
	}
}
