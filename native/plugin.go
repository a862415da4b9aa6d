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
	// healthEvery is the interval of health checks and how long each may take.
	// After healthMisses failed checks in a row the process is killed.
	healthEvery = 5 * time.Second

	healthMisses = 3

	// keptLines and keptBytes limit what is kept of a plugin's standard error.
	keptLines, keptBytes = 40, 40 << 10
)

// errPermanent marks a start that would fail again without a new configuration.
var errPermanent = errors.New("this does not change by itself")

// Plugin supervises the process of one plugin. It is safe for concurrent use.
type Plugin struct {
	host  *Host
	spec  Spec
	log   *slog.Logger
	lines *child.Lines // the end of its standard error
	calls atomic.Int64

	mu      sync.Mutex
	status  mcp.Status
	changed chan struct{} // closed when the status changes
	running *process      // nil while none serves
	catalog *catalog      // of the last process that served; nil before
}

func newPlugin(h *Host, s Spec) *Plugin {
	return &Plugin{
		host: h, spec: s, log: h.opts.Logger.With("server", s.Key), lines: child.NewLines(keptLines, keptBytes),
		status: mcp.Status{State: mcp.Starting, Since: time.Now()}, changed: make(chan struct{}),
	}
}

// Name returns the plugin's key.
func (p *Plugin) Name() string { return p.spec.Key }

// Kind returns "native", the kind of server, for people.
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

// Facts returns what the plugin declares about a tool beyond its definition; ok is
// false for an unknown tool.
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

// Layers returns the layers that confine the process, nil while none runs, or those that
// confine what its tools run.
func (p *Plugin) Layers() []string {
	if p.spec.Runs != nil {
		return slices.Clone(p.spec.Runs)
	}
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

// Stderr returns the last lines that the plugin wrote to its standard error, and how
// many lines its processes have written in total.
func (p *Plugin) Stderr() (lines []string, ended int) {
	return p.lines.Tail()
}

// Drain waits until no call runs or ctx ends.
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

// set changes the status of the plugin and tells the host.
func (p *Plugin) set(state mcp.State, reason string, running *process) {
	p.mu.Lock()
	p.status = mcp.Status{State: state, Reason: reason, Since: time.Now()}
	p.running = running
	if running != nil && (p.catalog == nil || !p.catalog.listing.Offers(running.catalog.listing)) {
		p.catalog = running.catalog
	}
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	p.host.opts.Changed(p.spec.Key)
}

// Run starts the plugin, and restarts it when it ends, until ctx ends. A plugin that
// ends too often is not restarted. Run returns when the process has gone.
func (p *Plugin) Run(ctx context.Context) error {
	restarts := newRestarts()
	for ctx.Err() == nil {
		began := time.Now()
		err := p.serve(ctx)
		if ctx.Err() != nil {
			break
		}
		wait, more := restarts.next(time.Now(), time.Since(began))
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

// reason returns for a person why the plugin does not run.
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

// serve starts a process, waits for its end and returns the reason.
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
			// The answer may be queued behind a large result.
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

// serving returns the running process. It waits while the plugin starts.
func (p *Plugin) serving(ctx context.Context) (*process, error) {
	wait, cancel := context.WithTimeout(ctx, p.spec.Timeouts.Start)
	defer cancel()
	for {
		p.mu.Lock()
		running, status, changed := p.running, p.status, p.changed
		p.mu.Unlock()
		if running != nil {
			return running, nil
		}
		if status.State != mcp.Starting {
			return nil, p.unavailable(status)
		}
		select {
		case <-changed:
		case <-wait.Done():
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, p.unavailable(status)
		}
	}
}

// unavailable returns why no tool can be called now.
func (p *Plugin) unavailable(s mcp.Status) *mcp.Failure {
	f := &mcp.Failure{Kind: mcp.FailUnavailable, Origin: mcp.OriginHop, Server: p.spec.Key, Err: errors.New(s.Reason)}
	if s.State == mcp.Failed {
		f.Reason = "The tools of " + p.spec.Key + " do not run; the operator sees why with `toolgate ls`."
		return f
	}
	f.Reason = "The tools of " + p.spec.Key + " are being started (" + s.State.String() + "); try again in a moment."
	return f
}

// Probe checks the health of the process.
func (p *Plugin) Probe(ctx context.Context) error {
	p.mu.Lock()
	running, status := p.running, p.status
	p.mu.Unlock()
	if running == nil {
		return p.unavailable(status)
	}
	return running.ping(ctx, p.host.opts.health)
}
