// Package hosted starts what hosts the interceptors of a configuration for a command that has
// no gateway.
package hosted

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/servers"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/orphan"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/proto"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
)

const (
	// hostedTime bounds how long a command waits for a host of interceptors.
	hostedTime = time.Minute
	// hostedPoll is how often the state of one is looked at.
	hostedPoll = 20 * time.Millisecond
)

// Hosts are the servers and plugins of a configuration that host interceptors, started for
// a command. Make it with [Start]; it is safe for concurrent use.
type Hosts struct {
	plugins map[string]*native.Plugin
	servers map[string]*upstream.Server
	without map[string]string // why the others are not there, by key
	folder  string            // of the sockets of plugins
	stop    context.CancelFunc
	unguard func()
	running sync.WaitGroup
}

// Start starts what hosts the interceptors of a configuration that look at calls, confined as a
// gateway would, and waits until each answers or has failed. They run until Close.
func Start(ctx context.Context, c *config.Config, off *build.KeptOff, log *slog.Logger) (_ *Hosts, err error) {
	h := &Hosts{plugins: make(map[string]*native.Plugin), servers: make(map[string]*upstream.Server), without: make(map[string]string)}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.stop, h.unguard = stop, orphan.Guard(func(err error) { log.Warn("what the command has started may outlive it when it is killed", "err", err) })
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	keys := hostsOf(c.Toolgate.Interceptors)
	var plugins, upstreams []config.Server
	for _, s := range c.Servers {
		switch {
		case !slices.Contains(keys, s.Key):
		case s.Native != nil:
			plugins = append(plugins, s)
		default:
			upstreams = append(upstreams, s)
		}
	}
	if err := h.startPlugins(running, c, plugins, off, log); err != nil {
		return nil, err
	}
	if err := h.startServers(running, c, upstreams, off, log); err != nil {
		return nil, err
	}
	return h, h.await(ctx)
}

// hostsOf returns the keys of what hosts the interceptors that look at calls.
func hostsOf(settings []intercept.Settings) (keys []string) {
	for _, s := range settings {
		if key := s.Server + s.Plugin; key != "" && (len(s.Phase) == 0 || slices.Contains(s.Phase, intercept.Before)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (h *Hosts) startPlugins(ctx context.Context, c *config.Config, list []config.Server, off *build.KeptOff, log *slog.Logger) error {
	specs, err := build.NativeSpecs(list, c, off)
	if err != nil || len(specs) == 0 {
		return err
	}
	// Not in the state folder, which a gateway may use.
	if h.folder, err = os.MkdirTemp("", "toolgate-h"); err != nil {
		return fmt.Errorf("make a folder for the sockets of plugins: %w", err)
	}
	host, err := native.NewHost(native.Options{Folder: h.folder, Version: version.Version, Logger: log})
	if err != nil {
		return err
	}
	for key, spec := range specs {
		plugin := host.Plugin(spec)
		h.plugins[key] = plugin
		h.running.Go(func() { _ = plugin.Run(ctx) }) // its state says what is wrong
	}
	return nil
}

func (h *Hosts) startServers(ctx context.Context, c *config.Config, list []config.Server, off *build.KeptOff, log *slog.Logger) error {
	if err := build.CheckSandboxes(list, c, off); err != nil {
		return err
	}
	for i := range list {
		of := &list[i]
		if of.AuthMode() != credential.Static {
			h.without[of.Key] = "the credential for it is the gateway's alone"
			continue
		}
		spec := build.UpstreamSpec(of, c, false)
		if spec.Sandbox != nil {
			spec.Sandbox.Check = off.CheckGrants
		}
		server := upstream.New(spec, upstream.Options{
			Sink: unheard{}, Credential: upstream.NewStatic(spec.Headers), Logger: log, Identity: proxy.Implementation(version.Version),
			Shown: func(text string) string { return text },
		})
		h.servers[of.Key] = server
		h.running.Go(func() { _ = server.Run(ctx) }) // its state says what is wrong
	}
	return nil
}

// unheard listens to no server.
type unheard struct{}

// Changed implements [upstream.Sink].
func (unheard) Changed(string) {}

// Happened implements [upstream.Sink].
func (unheard) Happened(mcp.Event) {}

// await waits until each host answers or has failed, and says of those that do not answer why.
func (h *Hosts) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hostedTime)
	defer cancel()
	tick := time.NewTicker(hostedPoll)
	defer tick.Stop()
	all := make(map[string]proxy.Backend)
	for key, p := range h.plugins {
		all[key] = build.Answered(p)
	}
	for key, s := range h.servers {
		all[key] = s
	}
	for key, of := range all {
		_, status := of.Listing()
		for status.State == mcp.Starting && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
			_, status = of.Listing()
		}
		switch status.State {
		case mcp.Ready, mcp.Degraded:
		case mcp.Starting:
			h.without[key] = fmt.Sprintf("it has not started within %v", hostedTime)
		default:
			h.without[key] = strings.TrimSpace(string(status.State) + " " + status.Reason)
		}
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return nil
}

// Without tells which hosts do not answer, and why.
func (h *Hosts) Without() map[string]string { return h.without }

// Request implements [build.Hosts].
func (h *Hosts) Request(ctx context.Context, server, method string, params []byte) (result []byte, err error) {
	s := h.servers[server]
	if s == nil {
		return nil, fmt.Errorf("no server %s runs", server)
	}
	return servers.Request(ctx, s, server, method, params)
}

// Intercept implements [build.Hosts].
func (h *Hosts) Intercept(ctx context.Context, plugin string, in *proto.InterceptRequest) (*proto.InterceptResponse, error) {
	p := h.plugins[plugin]
	if p == nil {
		return nil, fmt.Errorf("no plugin %s runs", plugin)
	}
	return p.Intercept(ctx, in)
}

// Close ends all processes and waits for them.
func (h *Hosts) Close() {
	h.stop()
	h.running.Wait()
	h.unguard()
	if h.folder != "" {
		_ = sandbox.RemoveAll(h.folder) // a folder for temporary files
	}
}
