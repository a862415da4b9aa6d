package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
)

// This file serves the tools that the configuration declares, each namespace of
// them as a backend.

// declaredServer is a namespace of declared tools that is served.
type declaredServer struct {
	*declared.Backend
	guard    *guard.Guard
	external map[string]bool // what another service answers
	queued   map[string]bool // what runs as a task
	served   *queue.Backend  // before the guard
	stop     context.CancelFunc
}

// newDeclared makes the backends of a configuration, by namespace; they are not
// guarded yet.
func newDeclared(c *config.Config, off *build.KeptOff) (map[string]*declaredServer, error) {
	tools, err := build.DeclaredTools(c, off)
	out := make(map[string]*declaredServer, len(tools))
	for _, namespace := range slices.Sorted(maps.Keys(tools)) {
		b, wrong := declared.New(namespace, tools[namespace])
		err = errors.Join(err, wrong)
		if wrong != nil {
			continue
		}
		s := &declaredServer{Backend: b, external: make(map[string]bool), queued: make(map[string]bool)}
		for i := range tools[namespace] {
			s.external[tools[namespace][i].Name] = tools[namespace][i].HTTP != nil
		}
		out[namespace] = s
	}
	for i := range c.Toolgate.Tools {
		if t := &c.Toolgate.Tools[i]; t.Queue && out[t.Namespace] != nil {
			out[t.Namespace].queued[t.Name] = true
		}
	}
	if err != nil {
		for _, s := range out {
			s.Close()
		}
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
	}
	return out, nil
}

// CheckDeclared checks the declared tools of a configuration that is not run.
func CheckDeclared(c *config.Config) error {
	state, err := statedir.Find(c.Path)
	if err != nil {
		return err
	}
	made, err := newDeclared(c, build.KeepOff(c, build.OwnFiles(c, state)))
	for _, s := range made {
		s.Close()
	}
	return err
}

// declaredFor returns the backends of a configuration: those that run where the
// declarations are the same.
func (in *Daemon) declaredFor(c *config.Config, off *build.KeptOff) (map[string]*declaredServer, error) {
	in.mu.Lock()
	now, of := in.declared, in.inForce
	in.mu.Unlock()
	if now != nil && reflect.DeepEqual(of.Toolgate.Tools, c.Toolgate.Tools) {
		// What else there is may be started from what they write.
		if err := off.CheckTools(c.Toolgate.Tools); err != nil {
			return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
		}
		return now, nil
	}
	return newDeclared(c, off)
}

// useDeclared serves the backends and returns their mounts; mu is held. Those
// before them finish their calls.
func (in *Daemon) useDeclared(c *config.Config, next map[string]*declaredServer) ([]proxy.Mount, error) {
	servers := make([]config.Server, 0, len(next))
	for _, namespace := range slices.Sorted(maps.Keys(next)) {
		servers = append(servers, config.Server{Key: namespace, Namespace: namespace, Timeouts: config.Timeouts{Hard: build.DeclaredHard}})
	}
	made, err := build.NewMounts(c, servers)
	if err != nil {
		return nil, err
	}
	for namespace, s := range in.declared {
		if next[namespace] == s {
			continue
		}
		s.stop()
		s.Close()
		if next[namespace] == nil {
			in.Metrics.Forget(namespace)
		}
	}
	mounts := make([]proxy.Mount, 0, len(next))
	for i, m := range made {
		s := next[servers[i].Key]
		if s.guard == nil {
			in.guardDeclared(s)
		}
		mount := m.On(s.served)
		mount.Native, mount.External = true, s.external
		mounts = append(mounts, mount)
	}
	in.declared = next
	return mounts, nil
}

// guardDeclared stands a guard before a backend. Its tools have nothing to do
// with each other, so that each has a breaker of its own.
func (in *Daemon) guardDeclared(s *declaredServer) {
	set := guard.Settings{Breaker: guard.Breaker{Off: true}, NoRetry: true, Tools: make(map[string]guard.Tool)}
	for name := range s.external {
		set.Tools[name] = guard.Tool{Breaker: &guard.Breaker{}}
	}
	ctx, stop := context.WithCancel(in.ctx)
	s.guard, s.stop = in.guard(s.Backend, set), stop
	s.served = in.queue.On(s.guard, func(tool string) bool { return s.queued[tool] })
	in.Running.Go(func() { _ = s.guard.Run(ctx) })
}

// declaredRows shows the declared tools in the list of servers.
func (in *Daemon) declaredRows() []admin.Server {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := make([]admin.Server, 0, len(in.declared))
	for namespace, s := range in.declared {
		l, status := s.Listing()
		out = append(out, admin.Server{
			Name: namespace, Namespace: namespace, Kind: "declared", State: status.State.String(), Seconds: time.Since(status.Since).Seconds(), Reason: status.Reason,
			Tokens: build.ListingTokens(l), Tools: len(l.Items[mcp.Tool]), Sandbox: declaredLayers(s.Backend),
		})
	}
	return out
}

// declaredLayers are the layers of confinement of the commands among declared tools,
// for people; empty where there are none.
func declaredLayers(b *declared.Backend) string {
	layers, commands := b.Layers()
	if !commands {
		return ""
	}
	return layersText(layers)
}
