package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/inside"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/upstream"
)

// nativeSocketPath is how long the path of the folder of plugin sockets may be for
// a socket to fit into it.
const nativeSocketPath = statedir.MaxSocketPath - len("/plugin-dir0123456789/plugin0123456789")

// newInside makes the groups of a plan that the gateway serves itself.
func (t *Table) newInside(specs map[string]native.Spec) (map[string]*inside.Backend, error) {
	out := make(map[string]*inside.Backend)
	for key, spec := range specs {
		if !spec.Inside {
			continue
		}
		var err error
		if out[key], err = inside.New(spec, t.o.Inside(key), t.o.Log); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// newHost makes the host of native tools.
func newHost(t *Table) (*native.Host, error) {
	folder, short, none := pluginFolder(t.o.State.Path, os.TempDir(), os.Getuid())
	if short != "" {
		if err := statedir.MakeSocketDir(short, os.Getuid()); err != nil {
			return nil, err
		}
	}
	return native.NewHost(native.Options{Folder: folder, NoSockets: none, Version: version.Version, Logger: t.o.Log, Changed: t.nativeChanged})
}

// pluginFolder is where the sockets of plugins are: in the state folder, or where
// their paths would be too long in a short folder of the user, which is returned as
// well, below that for temporary files. An error says why they fit nowhere; what
// needs no socket goes by the folder all the same.
func pluginFolder(state, temp string, uid int) (folder, short string, err error) {
	if folder = filepath.Join(state, "plugins"); len(folder) <= nativeSocketPath {
		return folder, "", nil
	}
	sum := sha256.Sum256([]byte(state))
	short = filepath.Join(temp, fmt.Sprintf("toolgate-%d", uid))
	below := filepath.Join(short, hex.EncodeToString(sum[:8])+".d")
	if len(below) > nativeSocketPath {
		return folder, "", fmt.Errorf("the socket of a plugin has no place: its path may have about %d characters, and it would have more in %s and in %s; "+
			"set TMPDIR to a shorter path, such as /tmp, or TOOLGATE_STATE to one of at most %d characters, and start the gateway again",
			statedir.MaxSocketPath, folder, short, statedir.MaxPath)
	}
	return below, short, nil
}

// nativeChanged is told that native tools are in another state, or list something else.
func (t *Table) nativeChanged(key string) {
	if s := t.nativeOf(key); s != nil {
		s.guard.Changed()
	}
	t.o.NativeChanged()
	t.o.Changed(key)
}

// nativeTools are native tools, whichever process serves them.
type nativeTools interface {
	backend
	Run(ctx context.Context) error
	Spec() *native.Spec
	Tools() []string
	Facts(tool string) (native.Facts, bool)
	Layers() []string
	Stderr() (lines []string, ended int)
	PID() int
}

// nativeOfSpec makes native tools, which nothing has started yet.
func (t *Table) nativeOfSpec(p *Plan, spec native.Spec) (of nativeTools, answers proxy.Backend) {
	if group := p.inside[spec.Key]; group != nil {
		return group, group
	}
	plugin := t.host.Plugin(spec)
	return plugin, build.Answered(plugin)
}

// newNative makes native tools, and what starts them.
func (t *Table) newNative(ctx context.Context, p *Plan, spec native.Spec, settings guard.Settings) (s *server, start func()) {
	plugin, answers := t.nativeOfSpec(p, spec)
	ctx, stop := context.WithCancel(ctx)
	s = &server{backend: plugin, native: plugin, guard: t.newGuard(t.o.Send(p.namespace(spec.Key), answers), settings), hash: spec.Hash(), stop: stop, ended: make(chan struct{})}
	s.queued = t.tasks.On(s.guard, func(tool string) bool {
		facts, _ := plugin.Facts(tool)
		return facts.Queue
	})
	return s, func() {
		t.running.Go(func() {
			defer close(s.ended)
			_ = plugin.Run(ctx)
		})
		t.running.Go(func() { _ = s.guard.Run(ctx) })
	}
}

// nativeOf returns the native tools of a key, nil when there are none.
func (t *Table) nativeOf(key string) *server {
	if s := t.now.Load().servers[key]; s != nil && s.native != nil {
		return s
	}
	return nil
}

// NativeOperator is what is known of a native tool. What the gateway ships is
// vouched for; what a plugin says of its own risk counts, and of itself otherwise
// as much as the word of any server.
func (t *Table) NativeOperator(server, tool string) governance.Operator {
	running := t.nativeOf(server)
	if running == nil {
		return governance.Operator{}
	}
	facts, ok := running.native.Facts(tool)
	if !ok {
		return governance.Operator{}
	}
	said := governance.Operator{Risk: governance.Risk(facts.Risk), HighCost: facts.Queue || t.o.Queued(t.now.Load().plan.namespace(server), tool)}
	if running.native.Spec().Shipped {
		said.ReadOnly, said.Destructive = &facts.ReadOnly, &facts.Destructive
	}
	return said
}

// NativeCategory is the category of which a native tool says that it is in, empty for
// other tools.
func (t *Table) NativeCategory(server, tool string) string {
	running := t.nativeOf(server)
	if running == nil {
		return ""
	}
	facts, _ := running.native.Facts(tool)
	return facts.Category
}

// NativeRates are the rates that native tools have of themselves, but for those of
// which the configuration says something.
func (t *Table) NativeRates(c *config.Config) []rate.Rule {
	var rules []rate.Rule
	for _, s := range t.list() {
		plugin := s.native
		if plugin == nil {
			continue
		}
		set, _ := c.Server(plugin.Name())
		for _, tool := range plugin.Tools() {
			facts, _ := plugin.Facts(tool)
			if facts.RatePerHour == 0 || set.Tools[tool].RateLimitPerHour != 0 {
				continue
			}
			rules = append(rules, rate.Rule{
				Name: fmt.Sprintf("native %q %q", plugin.Name(), tool), Per: []rate.Dimension{rate.PerPrincipal},
				Rate: rate.Rate{Limit: int64(facts.RatePerHour), Window: time.Hour, Kind: rate.Sliding},
				Match: func(call *rate.Call) bool {
					return call.Server == plugin.Name() && call.Original == tool && call.Kind == "tool"
				},
			})
		}
	}
	return rules
}

// layersOf are the layers of confinement of what a server runs, for people; empty for
// one that has no process here.
func layersOf(s *server) string {
	switch {
	case s.native != nil && s.native.Spec().Inside:
		return ""
	case s.native != nil:
		return layersText(s.native.Layers())
	}
	switch spec := s.upstream.Spec(); {
	case spec.Transport != upstream.Stdio:
		return ""
	case spec.Sandbox == nil:
		return layersText(nil)
	default:
		return layersText(build.Layers(*spec.Sandbox))
	}
}

// layersText names layers of confinement for people.
func layersText(layers []string) string {
	if len(layers) == 0 {
		return "none"
	}
	return strings.Join(layers, ", ")
}

// nativeLogs are the last lines of native tools, of all their processes.
func nativeLogs(s *server) admin.ServerLogs {
	lines, ended := s.native.Stderr()
	return admin.ServerLogs{Server: s.Name(), Process: 1, Ended: ended, Lines: append([]string{}, lines...)}
}

// NativePID is the process of native tools, zero where there is none.
func (t *Table) NativePID(key string) int {
	if s := t.nativeOf(key); s != nil {
		return s.native.PID()
	}
	return 0
}

// NativeListing is what native tools list; nil where there are none.
func (t *Table) NativeListing(key string) *mcp.Listing {
	s := t.nativeOf(key)
	if s == nil {
		return nil
	}
	l, _ := s.mounted().Listing()
	return l
}
