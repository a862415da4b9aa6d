package native

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// healthEvery is how often a plugin is asked whether it is alive, and how long
	// it has to answer; healthMisses is how many answers in a row may be missing
	// before it is ended.
	healthEvery = 5 * time.Second

	healthMisses = 3

	// keptLines and keptBytes are how much is kept of what a plugin prints.
	keptLines, keptBytes = 40, 40 << 10
)

// errPermanent is of a start that would fail again.
var errPermanent = errors.New("this does not change by itself")

// Plugin is one plugin with the process that serves it. It is safe for
// concurrent use.
type Plugin struct {
	host  *Host
	spec  Spec
	log   *slog.Logger
	lines *child.Lines // the last of its standard error
	calls atomic.Int64

	mu      sync.Mutex
	status  mcp.Status
	news    chan struct{} // closed when the status is another
	running *process      // nil while none serves
	catalog *catalog      // of the last process that served; nil before
}

func newPlugin(h *Host, s Spec) *Plugin {
	return &Plugin{
		host: h, spec: s, log: h.opts.Logger.With("server", s.Key), lines: child.NewLines(keptLines, keptBytes),
		status: mcp.Status{State: mcp.Starting, Since: time.Now()}, news: make(chan struct{}),
	}
}

// Name returns the plugin's key.
func (p *Plugin) Name() string { return p.spec.Key }

// Kind is what sort of server it is, for people.
func (p *Plugin) Kind() string { return "native" }

// Spec returns what the plugin was made with.
func (p *Plugin) Spec() *Spec { return &p.spec }

// Listing returns the tools, nil while they are not known, and the state.
func (p *Plugin) Listing() (*mcp.Listing, mcp.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.catalog == nil {
		return nil, p.status
	}
	return p.catalog.listing, p.status
}

// Facts returns what the plugin says of a tool beside its definition; ok is false
// for a tool that is not known.
func (p *Plugin) Facts(tool string) (f Facts, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.catalog == nil {
		return Facts{}, false
	}
	f, ok = p.catalog.facts[tool]
	return f, ok
}

// Tools returns the names of its tools, sorted; nil while they are not known.
func (p *Plugin) Tools() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.catalog == nil {
		return nil
	}
	return p.catalog.names()
}

// Layers returns what confines the process, nil while none runs.
func (p *Plugin) Layers() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return nil
	}
	return slices.Clone(p.running.layers)
}

// PID returns the number of the process, 0 while none serves.
func (p *Plugin) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return 0
	}
	return p.running.runner.pid()
}

// Stderr returns the last lines that the plugin wrote to its standard error,
// and how many there have been, of all its processes.
func (p *Plugin) Stderr() (lines []string, ended int) {
	return p.lines.Tail()
}

// Drain waits until no call runs, or the context ends.
func (p *Plugin) Drain(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for p.calls.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// set makes a status that of the plugin.
func (p *Plugin) set(state mcp.State, reason string, running *process) {
	p.mu.Lock()
	p.status = mcp.Status{State: state, Reason: reason, Since: time.Now()}
	p.running = running
	if running != nil && (p.catalog == nil || !p.catalog.listing.Offers(running.catalog.listing)) {
		p.catalog = running.catalog
	}
	close(p.news)
	p.news = make(chan struct{})
	p.mu.Unlock()
	p.host.opts.Changed(p.spec.Key)
}

// Run starts the plugin, and again when it ends, until the context has ended or
// it ends too often. It always returns after the process has gone.
func (p *Plugin) Run(ctx context.Context) error {
	ended := newEnds()
	for ctx.Err() == nil {
		began := time.Now()
		err := p.serve(ctx)
		if ctx.Err() != nil {
			break
		}
		wait, more := ended.add(time.Now(), time.Since(began))
		reason := p.reason(err)
		if !more || errors.Is(err, errPermanent) {
			p.log.Error("plugin failed, and is not started again before `toolgate reload`", "err", err, "stderr", p.lines.Last())
			p.set(mcp.Failed, reason, nil)
			<-ctx.Done()
			break
		}
		p.log.Warn("plugin ended and is started again", "err", err, "after", wait, "stderr", p.lines.Last())
		p.set(mcp.Reconnecting, reason, nil)
		if backoff.Sleep(ctx, wait) != nil {
			break
		}
	}
	return context.Cause(ctx)
}

// reason says for a person why the plugin does not run.
func (p *Plugin) reason(err error) string {
	text := strings.TrimSuffix(err.Error(), ": "+errPermanent.Error())
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	var said []string
	for _, line := range p.lines.Lines() {
		if line = strings.TrimSpace(line); line != "" {
			said = append(said, line)
		}
	}
	if len(said) > 0 {
		text += "; it said last: " + strings.Join(said[max(0, len(said)-3):], " | ")
	}
	return text
}

// serve starts a process and returns when it has ended, with the reason.
func (p *Plugin) serve(ctx context.Context) error {
	running, err := p.start(ctx)
	if err != nil {
		return err
	}
	p.log.Info("plugin ready", "pid", running.runner.pid(), "tools", len(running.catalog.facts), "sandbox", running.layers)
	p.set(mcp.Ready, "", running)
	tick := time.NewTicker(p.host.opts.health)
	defer tick.Stop()
	missed, heard := 0, uint64(0)
	for {
		select {
		case <-ctx.Done():
			p.set(mcp.Starting, "it is being stopped", nil)
			running.stop()
			return context.Cause(ctx)
		case <-running.runner.done:
			running.stop()
			return fmt.Errorf("the process ended: %w", running.runner.ended())
		case <-tick.C:
			err = running.ping(ctx, p.host.opts.health)
			// An answer may have to wait behind a large result that is on its way.
			now := running.runner.heard.Load()
			if err == nil || now != heard {
				missed, heard = 0, now
				continue
			}
			if missed++; missed == healthMisses {
				running.kill()
				running.stop()
				return fmt.Errorf("it did not answer %d times in a row when asked whether it is alive: %w", missed, err)
			}
		}
	}
}

// serving returns the process that serves, and waits for it while the plugin
// starts.
func (p *Plugin) serving(ctx context.Context) (*process, error) {
	wait, cancel := context.WithTimeout(ctx, p.spec.Timeouts.Start)
	defer cancel()
	for {
		p.mu.Lock()
		running, status, news := p.running, p.status, p.news
		p.mu.Unlock()
		if running != nil {
			return running, nil
		}
		if status.State != mcp.Starting {
			return nil, p.away(status)
		}
		select {
		case <-news:
		case <-wait.Done():
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, p.away(status)
		}
	}
}

// away is why nothing can be called now.
func (p *Plugin) away(s mcp.Status) *mcp.Failure {
	f := &mcp.Failure{Kind: mcp.FailUnavailable, Origin: mcp.OriginHop, Server: p.spec.Key, Err: errors.New(s.Reason)}
	if s.State == mcp.Failed {
		f.Reason = "The tools of " + p.spec.Key + " do not run; the operator sees why with `toolgate ls`."
		return f
	}
	f.Reason = "The tools of " + p.spec.Key + " are being started (" + s.State.String() + "); try again in a moment."
	return f
}

// Probe asks the process whether it is alive.
func (p *Plugin) Probe(ctx context.Context) error {
	p.mu.Lock()
	running, status := p.running, p.status
	p.mu.Unlock()
	if running == nil {
		return p.away(status)
	}
	return running.ping(ctx, p.host.opts.health)
}
