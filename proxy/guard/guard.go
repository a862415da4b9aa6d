// Package guard wraps a backend with circuit breakers and retries. A [Guard] stops
// calling a backend that fails, retries requests where that is safe, and notices when
// the backend is back (docs/resilience.md).
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

// Settings configure a [Guard] (docs/resilience.md). The zero value stands for the defaults.
type Settings struct {
	// Breaker is the breaker of the whole backend.
	Breaker Breaker
	// Tools are settings of single tools, by their name at the backend.
	Tools map[string]Tool
	// Retry bounds repetition.
	Retry Retry
	// Call bounds one call including its retries, where the call has no timeout of its
	// own; 120 s when zero.
	Call time.Duration
}

// Retry bounds repetition.
type Retry struct {
	// How often toolgate retries a call that was not delivered, or that is safe to repeat. Default: 2.
	Max *int `config:"max" min:"0" max:"10"`
	// Trusts the server's own hints: a tool that it lists as read-only or idempotent is safe to repeat, unless
	// idempotent says otherwise. Default: false.
	TrustHints bool `config:"trust_hints"`
}

// times is how often a request is retried at most.
func (r Retry) times() int {
	if r.Max == nil {
		return 2
	}
	return max(0, *r.Max)
}

// Tool configures one tool of a backend.
type Tool struct {
	// Breaker is a breaker for the tool alone, besides that of the backend; nil for
	// none.
	Breaker *Breaker
	// Idempotent says whether the tool may run twice for one call. With nil the
	// backend's hint decides, if it is trusted.
	Idempotent *bool
}

func (r Settings) withDefaults() Settings {
	r.Call = cmp.Or(max(0, r.Call), 120*time.Second)
	return r
}

// Options are callbacks of a [Guard]. All fields may be nil.
type Options struct {
	Logger *slog.Logger
	// Changed is called with each new state of a breaker. tool is empty for the breaker
	// of the backend. It must not block.
	Changed func(backend, tool string, state State)
	// Retried is called for each retry. It must not block.
	Retried func(backend string)
}

// Backend is what a [Guard] wraps, and what it implements itself.
type Backend interface {
	Name() string
	// Listing returns what the backend offers, nil while that is unknown, and its
	// state.
	Listing() (*mcp.Listing, mcp.Status)
	Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error)
	// Probe checks whether the backend is alive, without running a tool.
	Probe(ctx context.Context) error
}

// sessionEnder is a [Backend] that keeps state per client session.
type sessionEnder interface {
	EndSession(principal, session string)
}

// clientAware is a [Backend] that depends on client capabilities.
type clientAware interface {
	Connected(principal string, capabilities []byte)
}

// Guard is a [Backend] that wraps another one. It stops calling it while it fails, and
// retries requests that never reached it. [Guard.Run] notices when a backend that is
// not called answers again. It is safe for concurrent use.
type Guard struct {
	backend Backend
	opts    Options
	log     *slog.Logger

	set           atomic.Pointer[Settings]
	whole         *circuit
	opened        chan struct{} // capacity 1: the breaker of the backend has changed
	statusChanged chan struct{} // capacity 1: the status of the backend has changed
	hinted        chan struct{} // capacity 1: another gateway has stopped calling the backend
	budget        retryBudget

	mu       sync.Mutex
	tools    map[string]*circuit // the tools' own breakers, by name at the backend
	holds    map[capability]time.Time
	answered [2]answered // of two capabilities, the latest first
	last     string      // the latest failure that counted, for people
}

// capability identifies what a request is about.
type capability struct {
	kind mcp.Kind
	key  string
}

// answered records when a capability was last answered.
type answered struct {
	by capability
	at time.Time
}

// New returns a guard around a backend.
func New(b Backend, set Settings, opts Options) *Guard {
	g := &Guard{
		backend: b, opts: opts, log: opts.Logger, opened: make(chan struct{}, 1), statusChanged: make(chan struct{}, 1), hinted: make(chan struct{}, 1),
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

// Configure replaces the settings. Open breakers stay open.
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

// Inherit takes over the state of a guard of the same server, whose connections were
// replaced.
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

// report announces the new state of a circuit, whose lock is held.
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

// Listing implements [Backend]. The listing does not depend on breakers.
func (g *Guard) Listing() (*mcp.Listing, mcp.Status) { return g.backend.Listing() }

// Probe implements [Backend].
func (g *Guard) Probe(ctx context.Context) error { return g.backend.Probe(ctx) }

// EndSession tells the backend that a client session has ended, if it needs that.
func (g *Guard) EndSession(principal, session string) {
	if ender, ok := g.backend.(sessionEnder); ok {
		ender.EndSession(principal, session)
	}
}

// Connected tells the backend the capabilities of a principal's client, if it needs them.
func (g *Guard) Connected(principal string, capabilities []byte) {
	if aware, ok := g.backend.(clientAware); ok {
		aware.Connected(principal, capabilities)
	}
}

// own returns the capability's own circuit, nil when it has none.
func (g *Guard) own(what capability) *circuit {
	if what.kind != mcp.Tool {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tools[what.key]
}

const (
	// While a breaker is open, its backend is probed after livenessFirst, and then with
	// growing pauses of at most livenessMost. One probe takes livenessTime at most.
	livenessFirst, livenessMost = 250 * time.Millisecond, 2 * time.Second
	livenessTime                = 2 * time.Second
)

// Changed reports a new status of the backend: one that is back is probed at once. It
// does not block.
func (g *Guard) Changed() { poke(g.statusChanged) }

// Hint reports that another gateway has stopped calling the same server. It does not block.
// The backend is probed, and not called any more if it does not answer.
func (g *Guard) Hint() { poke(g.hinted) }

// hint follows a hint.
func (g *Guard) hint(ctx context.Context) {
	if g.whole.view().state != Closed || g.probe(ctx) || ctx.Err() != nil {
		return
	}
	g.mu.Lock()
	g.last = "another gateway has stopped calling it, and it does not answer here either"
	g.mu.Unlock()
	g.whole.trip(time.Now())
}

// Run probes the backend while its breaker is open, never with a tool call. It ends the
// open time when the backend answers. It returns nil when the context ends.
func (g *Guard) Run(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	var wait time.Duration // 0 while there is no probe to wait for
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.opened:
			switch v := g.whole.view(); {
			case v.state != Open:
				wait = 0
			case wait == 0: // the more often it opens, the rarer the probes
				wait = min(livenessFirst<<min(v.reopens, 8), livenessMost)
				pause.Reset(wait)
			}
			continue
		case <-g.hinted:
			g.hint(ctx)
			continue
		case <-g.statusChanged:
			if _, status := g.backend.Listing(); status.State != mcp.Ready && status.State != mcp.Degraded {
				continue
			}
		case <-pause.C:
		}
		if wait == 0 || g.whole.view().state != Open {
			wait = 0
			continue
		}
		if g.probe(ctx) {
			g.whole.endOpenTime()
			wait = 0
			continue
		}
		wait = min(2*wait, livenessMost)
		pause.Reset(wait)
	}
}

// probe checks whether the backend is alive.
func (g *Guard) probe(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, livenessTime)
	defer cancel()
	err := g.backend.Probe(ctx)
	if err != nil {
		g.log.Debug("liveness probe failed", "err", err)
	}
	return err == nil
}

// Status is the state of a breaker, for people.
type Status struct {
	Backend string
	Tool    string // empty for the breaker of the backend
	State   State
	Since   time.Time
	// Until is the end of the open time, at the latest.
	Until time.Time
	// Failures counts the consecutive failures of a closed breaker. Opens is how often
	// it opened.
	Failures int
	Opens    uint64
	// Why is the latest failure that counted; empty without one.
	Why string
}

// Breakers returns the state of every breaker, that of the backend first.
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

// Reset closes the breaker of a tool, or every breaker when tool is empty. It also
// clears the counters and postponements. It returns false when the tool has no breaker
// of its own.
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

// jitter is a random pause before the n-th retry, counted from 1.
func jitter(repetition int) time.Duration {
	most := min(retryMinPause<<(2*repetition), retryMaxPause)
	return retryMinPause + rand.N(most-retryMinPause+1)
}

// poke sends to a channel of capacity 1 without blocking.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
