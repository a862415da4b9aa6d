// Package guard stands before a backend: it stops calling it while it fails, calls it
// again where that is safe, and notices when it is back (docs/resilience.md).
package guard

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Settings is how a [Guard] treats a backend that fails (DESIGN 8). The zero
// value has the defaults of each part.
type Settings struct {
	// Breaker is that of the whole backend.
	Breaker Breaker
	// Tools are settings of single tools, by their name at the backend.
	Tools map[string]Tool
	// NoRetry repeats nothing; Retries is how often a request is repeated at
	// most; 2 when zero.
	NoRetry bool
	Retries int
	// TrustHints repeats tools that the backend itself calls read-only or
	// idempotent, where nothing else is said of one.
	TrustHints bool
	// Call is how long one call may take with its repetitions, where it has no
	// timeout of its own; 120 s when zero.
	Call time.Duration
}

// Tool is how one tool of a backend is treated.
type Tool struct {
	// Breaker is one of the tool's own, beside that of the backend; nil is none.
	Breaker *Breaker
	// Idempotent tells whether the tool may run twice for one call; nil leaves it
	// to what the backend says, if that is trusted.
	Idempotent *bool
}

func (r Settings) withDefaults() Settings {
	if r.Retries <= 0 {
		r.Retries = 2
	}
	if r.NoRetry {
		r.Retries = 0
	}
	r.Call = cmp.Or(max(0, r.Call), 120*time.Second)
	return r
}

// Options are what a [Guard] reports to. All fields may be nil.
type Options struct {
	Logger *slog.Logger
	// Changed is told each new state of a breaker: tool is empty for that of the
	// backend. It must not block.
	Changed func(backend, tool string, state State)
	// Retried is told of each repetition. It must not block.
	Retried func(backend string)
}

// Backend is what a [Guard] stands before, and is itself.
type Backend interface {
	Name() string
	// Listing returns what the backend offers, nil while nothing is known, and its
	// state.
	Listing() (*mcp.Listing, mcp.Status)
	Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error)
	// Probe asks whether the backend is alive, without running a tool.
	Probe(ctx context.Context) error
}

// sessionEnder is a [Backend] that keeps something per client session.
type sessionEnder interface {
	EndSession(principal, session string)
}

// clientAware is a [Backend] that wants to know what clients declare.
type clientAware interface {
	Connected(capabilities []byte)
}

// Guard is a [Backend] that stands before another one. It stops calling it while
// it fails, and repeats what never reached it. [Guard.Run] notices when a backend
// that is not called answers again. It is safe for concurrent use.
type Guard struct {
	backend Backend
	opts    Options
	log     *slog.Logger

	set    atomic.Pointer[Settings]
	whole  *circuit
	opened chan struct{} // capacity 1: whole has changed
	news   chan struct{} // capacity 1: the backend has
	budget retryBudget

	mu       sync.Mutex
	tools    map[string]*circuit // those of their own, by the tool's name at the backend
	holds    map[capability]time.Time
	answered [2]answered // by two capabilities, the latest first
	last     string      // the latest failure that counted, for people
}

// capability names what a request is about.
type capability struct {
	kind mcp.Kind
	key  string
}

// answered is when a capability was last answered.
type answered struct {
	by capability
	at time.Time
}

// New returns a guard before a backend.
func New(b Backend, set Settings, opts Options) *Guard {
	g := &Guard{
		backend: b, opts: opts, log: opts.Logger, opened: make(chan struct{}, 1), news: make(chan struct{}, 1),
		tools: make(map[string]*circuit), holds: make(map[capability]time.Time),
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	g.log = g.log.With("server", b.Name())
	set = set.withDefaults()
	g.whole = newCircuit(set.Breaker, nil)
	g.whole.changed = func() {
		g.report("", g.whole)
		poke(g.opened)
	}
	g.budget.tokens = retryBurst
	g.Configure(set)
	return g
}

// Configure replaces the settings. Breakers that are open stay open.
func (g *Guard) Configure(set Settings) {
	set = set.withDefaults()
	g.set.Store(&set)
	g.whole.configure(set.Breaker)
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, c := range g.tools {
		if own := set.Tools[name].Breaker; own != nil {
			c.configure(*own)
			continue
		}
		delete(g.tools, name)
		if g.opts.Changed != nil {
			g.opts.Changed(g.backend.Name(), name, Closed)
		}
	}
	for name, tool := range set.Tools {
		if tool.Breaker == nil || g.tools[name] != nil {
			continue
		}
		c := newCircuit(*tool.Breaker, nil)
		c.changed = func() { g.report(name, c) }
		g.tools[name] = c
	}
}

// Inherit takes over what a guard knew that stood before the same server, whose
// connections were made anew.
func (g *Guard) Inherit(from *Guard) {
	from.mu.Lock()
	tools, holds, last := maps.Clone(from.tools), maps.Clone(from.holds), from.last
	from.mu.Unlock()
	g.whole.inherit(from.whole)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds, g.last = holds, last
	for name, c := range g.tools {
		if before := tools[name]; before != nil {
			c.inherit(before)
		}
	}
}

// report tells of a new state of a circuit, whose lock is held.
func (g *Guard) report(tool string, c *circuit) {
	level := slog.LevelInfo
	if c.state == Open {
		level = slog.LevelWarn
	}
	g.log.LogAttrs(context.Background(), level, "circuit breaker", slog.String("tool", tool), slog.String("state", c.state.String()))
	if g.opts.Changed != nil {
		g.opts.Changed(g.backend.Name(), tool, c.state)
	}
}

// Name implements [Backend].
func (g *Guard) Name() string { return g.backend.Name() }

// Listing implements [Backend]. What is listed does not depend on breakers.
func (g *Guard) Listing() (*mcp.Listing, mcp.Status) { return g.backend.Listing() }

// Probe implements [Backend].
func (g *Guard) Probe(ctx context.Context) error { return g.backend.Probe(ctx) }

// EndSession tells the backend that a client session has ended, if it wants to know.
func (g *Guard) EndSession(principal, session string) {
	if ender, ok := g.backend.(sessionEnder); ok {
		ender.EndSession(principal, session)
	}
}

// Connected tells the backend what a client declares, if it wants to know.
func (g *Guard) Connected(capabilities []byte) {
	if aware, ok := g.backend.(clientAware); ok {
		aware.Connected(capabilities)
	}
}

// own returns the circuit of what a request is about, nil when it has none of
// its own.
func (g *Guard) own(what capability) *circuit {
	if what.kind != mcp.Tool {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tools[what.key]
}

const (
	// Liveness is asked first after livenessFirst, then with growing pauses of at
	// most livenessMost, and each time for livenessTime at most.
	livenessFirst, livenessMost = 250 * time.Millisecond, 2 * time.Second
	livenessTime                = 2 * time.Second
)

// Changed takes the news that the status of the backend is another: one that is
// back is asked for a sign of life at once. It does not block.
func (g *Guard) Changed() { poke(g.news) }

// Run asks the backend for a sign of life while its breaker is open, by its own
// probe and never by a tool, and ends the open time at once when there is one. It
// returns nil when the context ends.
func (g *Guard) Run(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	var wait time.Duration // 0 while nothing is asked
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.opened:
			switch v := g.whole.view(); {
			case v.state != Open:
				wait = 0
			case wait == 0: // the more often it opens, the less often it is asked
				wait = min(livenessFirst<<min(v.reopens, 8), livenessMost)
				pause.Reset(wait)
			}
			continue
		case <-g.news:
			if _, status := g.backend.Listing(); status.State != mcp.Ready && status.State != mcp.Degraded {
				continue
			}
		case <-pause.C:
		}
		if wait == 0 || g.whole.view().state != Open {
			wait = 0
			continue
		}
		if g.lives(ctx) {
			g.whole.alive()
			wait = 0
			continue
		}
		wait = min(2*wait, livenessMost)
		pause.Reset(wait)
	}
}

// lives asks the backend for a sign of life.
func (g *Guard) lives(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, livenessTime)
	defer cancel()
	err := g.backend.Probe(ctx)
	if err != nil {
		g.log.Debug("no sign of life", "err", err)
	}
	return err == nil
}

// Status is a breaker as people see it.
type Status struct {
	Backend string
	Tool    string // empty for the breaker of the whole backend
	State   State
	Since   time.Time
	// Until is when an open breaker lets a call through at the latest.
	Until time.Time
	// Failures is how many calls in a row have failed, of a closed breaker;
	// Opens how often it opened.
	Failures int
	Opens    uint64
	// Why is the latest failure that counted; empty when there was none.
	Why string
}

// Breakers returns the state of every breaker, that of the whole backend first.
func (g *Guard) Breakers() []Status {
	g.mu.Lock()
	why := g.last
	tools := make([]Status, 0, len(g.tools))
	for name, c := range g.tools {
		tools = append(tools, g.status(name, c, ""))
	}
	g.mu.Unlock()
	slices.SortFunc(tools, func(a, b Status) int { return strings.Compare(a.Tool, b.Tool) })
	return append([]Status{g.status("", g.whole, why)}, tools...)
}

func (g *Guard) status(tool string, c *circuit, why string) Status {
	v := c.view()
	return Status{
		Backend: g.backend.Name(), Tool: tool, State: v.state, Since: v.since, Until: v.until,
		Failures: v.failures, Opens: v.opens, Why: why,
	}
}

// Reset closes the breaker of a tool, or with an empty name every breaker, and
// forgets what was counted and how long it was asked to wait. It returns false
// when the tool has no breaker of its own.
func (g *Guard) Reset(tool string) bool {
	g.mu.Lock()
	var circuits []*circuit
	for name, c := range g.tools {
		if tool == "" || tool == name {
			circuits = append(circuits, c)
		}
	}
	if tool == "" {
		circuits = append(circuits, g.whole)
		clear(g.holds)
		g.last = ""
	}
	g.mu.Unlock()
	for _, c := range circuits {
		c.reset()
	}
	return len(circuits) > 0
}

// jitter is a random pause before the repetition of a given number, counted from
// 1.
func jitter(repetition int) time.Duration {
	most := min(retryLeast<<(2*repetition), retryMost)
	return retryLeast + rand.N(most-retryLeast+1)
}

// poke wakes whoever waits for a channel of capacity 1.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
