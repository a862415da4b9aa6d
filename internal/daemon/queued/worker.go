package queued

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/orphan"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/proxy"
)

// Worker is what an operator says of a worker.
type Worker struct {
	Name     string
	Queues   []string
	Capacity int // jobs of each queue that run at once
}

// Serve runs the jobs of queues with the tools of a configuration until ctx ends, and then
// lets those that run finish.
func (w Worker) Serve(ctx context.Context, c *config.Config, state *statedir.Dir, log *slog.Logger) error {
	s := &c.Toolgate.Queue
	for _, name := range w.Queues {
		if _, ok := s.Queues[name]; !ok {
			return failure.Newf(failure.Config, "%s: toolgate.queue.queues has no queue %q; it has %s", c.Path, name, known(s))
		}
	}
	own, err := boxes(s, w.Queues)
	if err != nil {
		return err
	}
	defer orphan.Guard(func(err error) { log.Warn("what the worker has started may outlive it when it is killed", "err", err) })()
	tools, err := newToolset(c, state, log)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer tools.end()
	defer stop()
	tools.start(running)
	engine := reachAtLast(ctx, func(ctx context.Context) (queue.Engine, error) { return open(ctx, s, log) }, func(err error) {
		log.Warn("the worker waits for the engine of its queues", "queues", w.Queues, "engine", s.Engine, "err", err)
	})
	if engine == nil {
		return nil // it was stopped while it waited
	}
	worker := &queue.Worker{
		Name: w.Name, Engine: engine, Boxes: slices.Collect(maps.Values(own)), Capacity: w.Capacity, Lease: queue.DefaultLease,
		Drain: c.Toolgate.Limits.Drain, Log: log, Run: tools.run,
	}
	err = worker.Serve(ctx)
	if _, wrong := errors.AsType[*queue.KeyError](err); wrong {
		err = failure.New(failure.Auth, err)
	}
	return errors.Join(err, engine.Close())
}

func known(s *queue.Settings) string {
	if len(s.Queues) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(s.Queues)), ", ")
}

// toolset has the tools of a worker.
type toolset struct {
	settings *queue.Settings
	folder   string                   // of the sockets of plugins
	tools    map[string]proxy.Backend // by the key of their server
	names    map[string]string        // namespaces, by key
	plugins  []*native.Plugin
	declared []*declared.Backend
	running  sync.WaitGroup
}

// newToolset makes the tools that the queues of a configuration name.
func newToolset(c *config.Config, state *statedir.Dir, log *slog.Logger) (_ *toolset, err error) {
	ts := &toolset{settings: &c.Toolgate.Queue, tools: make(map[string]proxy.Backend), names: make(map[string]string)}
	// Not in the state folder, which a gateway or another worker of this machine may use.
	if ts.folder, err = os.MkdirTemp("", "toolgate-w"); err != nil {
		return nil, fmt.Errorf("make a folder for the sockets of plugins: %w", err)
	}
	defer func() {
		if err != nil {
			ts.end()
		}
	}()
	off := build.KeepOff(c, build.OwnFiles(c, state))
	host, err := native.NewHost(native.Options{Folder: ts.folder, Version: version.Version, Logger: log})
	if err != nil {
		return nil, err
	}
	var used []config.Server
	for _, s := range c.Servers {
		if s.Native != nil && ts.settings.Uses(s.Namespace) {
			used = append(used, s)
			ts.names[s.Key] = s.Namespace
		}
	}
	specs, err := build.NativeSpecs(used, c, off)
	if err != nil {
		return nil, err
	}
	for key, spec := range specs {
		plugin := host.Plugin(spec)
		ts.plugins = append(ts.plugins, plugin)
		ts.tools[key] = build.Answered(plugin)
	}
	if err := off.CheckTools(c.Toolgate.Tools); err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
	}
	tools, err := build.DeclaredTools(c, off)
	if err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
	}
	for namespace, list := range tools {
		if !ts.settings.Uses(namespace) {
			continue
		}
		made, err := declared.New(namespace, list)
		if err != nil {
			return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
		}
		ts.declared = append(ts.declared, made)
		ts.tools[namespace], ts.names[namespace] = made, namespace
	}
	return ts, nil
}

func (ts *toolset) start(ctx context.Context) {
	for _, plugin := range ts.plugins {
		ts.running.Go(func() { _ = plugin.Run(ctx) }) // ends with its context
	}
}

// end waits for the processes, whose context has ended, and removes what is left.
func (ts *toolset) end() {
	ts.running.Wait()
	for _, d := range ts.declared {
		d.Close()
	}
	_ = sandbox.RemoveAll(ts.folder) // a folder for temporary files
}

// listWait is how often a tool is looked for that is being started.
const listWait = 50 * time.Millisecond

// run runs one call, of a tool that a queue of this worker names and that is the one that
// the gateway decided on.
func (ts *toolset) run(ctx context.Context, w *queue.Work, notify func(string, []byte)) (mcp.Answer, error) {
	of := ts.tools[w.Server]
	if of == nil || w.Queue == "" || ts.settings.Of(ts.names[w.Server], w.Tool) != w.Queue {
		return refused(w, "its file does not have this tool in the queue "+w.Queue)
	}
	tick := time.NewTicker(listWait)
	defer tick.Stop()
	l, status := of.Listing()
	for l == nil && status.State == mcp.Starting {
		select {
		case <-ctx.Done():
			return mcp.Answer{}, context.Cause(ctx)
		case <-tick.C:
		}
		l, status = of.Listing()
	}
	if sum, _ := queue.Definition(l, w.Tool); sum == "" || sum != w.Definition {
		return refused(w, "its definition of the tool is not the one of the gateway: give both the same file and the same version")
	}
	args := w.Arguments
	if len(args) == 0 {
		args = []byte("{}")
	}
	return of.Call(ctx, &mcp.Call{
		Method: mcp.MethodToolsCall, Kind: mcp.Tool, Key: w.Tool, Era: mcp.Modern, Timeout: w.Timeout, Idle: w.Idle, Hard: w.Hard,
		Params:   mcp.SetMember(mcp.SetMember(nil, "name", mcp.AppendQuote(nil, w.Tool)), "arguments", args),
		Progress: w.Progress, LogLevel: w.LogLevel, Notify: notify,
	})
}

func refused(w *queue.Work, why string) (mcp.Answer, error) {
	return mcp.Answer{}, &mcp.Failure{
		Kind: mcp.FailDisabled, Origin: mcp.OriginHop, Server: w.Server, Reason: "The worker refuses " + w.Tool + ": " + why + ".",
	}
}
