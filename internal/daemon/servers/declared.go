package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/upstream"
)

// namespace is one of tools that the configuration declares.
type namespace struct {
	*declared.Backend
	guard    *guard.Guard    // nil until it is first mounted
	external map[string]bool // what another service answers
	queued   map[string]bool // what runs as a task
	added    bool            // agents have registered them
	madeFrom map[string]string
	served   *queue.Backend // in front of the guard
	stop     context.CancelFunc
}

// newDeclared makes the backends of a configuration, by namespace; they are not
// guarded yet.
func newDeclared(c *config.Config, off *build.KeptOff) (map[string]*namespace, error) {
	tools, err := build.DeclaredTools(c, off)
	out := make(map[string]*namespace, len(tools))
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		b, wrong := declared.New(name, tools[name])
		err = errors.Join(err, wrong)
		if wrong != nil {
			continue
		}
		if !slices.ContainsFunc(tools[name], func(tool declared.Tool) bool { return !tool.Template }) {
			b.Close()
			continue
		}
		s := &namespace{Backend: b, external: make(map[string]bool), queued: make(map[string]bool)}
		for i := range tools[name] {
			s.external[tools[name][i].Name] = tools[name][i].HTTP != nil
		}
		out[name] = s
	}
	for i := range c.Toolgate.Tools {
		if t := &c.Toolgate.Tools[i]; t.Queue && out[t.Namespace] != nil {
			out[t.Namespace].queued[t.Name] = true
		}
		if t := &c.Toolgate.Tools[i]; t.Of != "" && out[t.Namespace] != nil {
			from, wrong := t.Pin()
			err = errors.Join(err, wrong)
			if n := out[t.Namespace]; n.madeFrom == nil {
				n.madeFrom = make(map[string]string)
			}
			out[t.Namespace].added, out[t.Namespace].madeFrom[t.Name] = true, t.Of+" "+from
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
func CheckDeclared(c *config.Config, off *build.KeptOff) error {
	made, err := newDeclared(c, off)
	for _, n := range made {
		n.Close()
	}
	return err
}

// declaredMounts makes the mounts of declared tools, sorted by namespace, without their
// backends.
func declaredMounts(c *config.Config, declared map[string]*namespace) ([]build.MountOf, error) {
	list := make([]config.Server, 0, len(declared))
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		s := config.Server{Key: name, Namespace: name, Timeouts: upstream.Timeouts{Hard: build.DeclaredHard}, Tools: make(map[string]config.Tool)}
		for i := range c.Toolgate.Tools {
			if t := &c.Toolgate.Tools[i]; t.Namespace == name && t.Cache != nil {
				s.Tools[t.Name] = config.Tool{Cache: t.Cache}
			}
		}
		list = append(list, s)
	}
	return build.NewMounts(c, list)
}

// mountDeclared returns the mounts of the declared tools of a plan, and what starts those
// that do not run yet.
func (t *Table) mountDeclared(ctx context.Context, p *Plan) (mounts []proxy.Mount, run []func()) {
	for i, name := range slices.Sorted(maps.Keys(p.declared)) {
		n := p.declared[name]
		if n.guard == nil {
			run = append(run, t.guardDeclared(ctx, n))
		}
		mount := p.declaredOn[i].On(n.served)
		mount.Native, mount.Added, mount.MadeFrom, mount.External, mount.Unfit = true, n.added, n.madeFrom, n.external, n.Check
		mounts = append(mounts, mount)
	}
	return mounts, run
}

// guardDeclared stands a guard in front of declared tools, and returns what starts it.
// The tools have nothing to do with each other, so that each has a circuit breaker of
// its own.
func (t *Table) guardDeclared(ctx context.Context, n *namespace) (start func()) {
	settings := guard.Settings{Breaker: guard.Breaker{Off: true}, Retry: guard.Retry{Max: new(0)}, Tools: make(map[string]guard.Tool)}
	for name := range n.external {
		settings.Tools[name] = guard.Tool{Breaker: &guard.Breaker{}}
	}
	ctx, n.stop = context.WithCancel(ctx)
	n.guard = t.newGuard(t.o.Send(n.Name(), n.Backend), settings)
	n.served = t.tasks.On(n.guard, func(tool string) bool { return n.queued[tool] })
	return func() { t.running.Go(func() { _ = n.guard.Run(ctx) }) }
}

// declaredRows shows the declared tools in the list of servers.
func (g *generation) declaredRows() []admin.Server {
	out := make([]admin.Server, 0, len(g.declared))
	for name, n := range g.declared {
		l, status := n.Listing()
		out = append(out, admin.Server{
			Name: name, Namespace: name, Kind: "declared", State: status.State.String(), Seconds: time.Since(status.Since).Seconds(), Reason: status.Reason,
			Tokens: build.ListingTokens(l, name, name), Tools: len(l.Items[mcp.Tool]), Sandbox: declaredLayers(n.Backend),
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
