package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
)

// federated is what the gateway stands before: a server, or tools of its own.
type federated interface {
	proxy.Backend
	Kind() string
	Drain(ctx context.Context)
}

// nativeSocketPath is how long the path of the folder of plugin sockets may be for
// a socket to fit into it.
const nativeSocketPath = statedir.MaxSocketPath - len("/plugin-dir0123456789/plugin0123456789")

// newHost makes the host of native tools.
func newHost(in *Daemon) (*native.Host, error) {
	folder, short, none := pluginFolder(in.State.Path, os.TempDir(), os.Getuid())
	if short != "" {
		if err := statedir.MakeSocketDir(short, os.Getuid()); err != nil {
			return nil, err
		}
	}
	return native.NewHost(native.Options{Folder: folder, NoSockets: none, Version: version.Version, Logger: in.Log, Changed: in.nativeChanged})
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

// nativeChanged is told that a plugin is in another state, or lists something else.
func (in *Daemon) nativeChanged(key string) {
	if s := in.Natives.Get(key); s != nil {
		s.guard.Changed()
	}
	in.rates.Renew(build.RateRules(in.Current()), in.NativeRates())
	in.Changed(key)
}

// startNative makes native tools and runs them; mu is held.
func (in *Daemon) startNative(spec native.Spec, set guard.Settings) *runningServer {
	plugin := in.host.Plugin(spec)
	ctx, stop := context.WithCancel(in.ctx)
	guard := in.guard(plugin, set)
	in.Running.Go(func() { _ = plugin.Run(ctx) })
	in.Running.Go(func() { _ = guard.Run(ctx) })
	served := in.queue.On(guard, func(tool string) bool {
		facts, _ := plugin.Facts(tool)
		return facts.Queue
	})
	return &runningServer{federated: plugin, Native: plugin, guard: guard, queued: served, hash: spec.Hash(), stop: stop}
}

// Backend is what is mounted of a server.
func (s *runningServer) Backend() proxy.Backend {
	if s.queued != nil {
		return s.queued
	}
	return s.guard
}

// reuse tells whether a running server is the one of a spec, and fit to go on.
// Native tools that have failed for good are started again by every reload.
func (s *runningServer) reuse(hash string) bool {
	if s == nil || s.hash != hash {
		return false
	}
	_, status := s.Listing()
	return s.Native == nil || status.State != mcp.Failed
}

// nativeTools are the native tools that run, by key. They are safe for concurrent
// use.
type nativeTools struct {
	mu sync.RWMutex
	of map[string]*runningServer
}

// use makes the native ones of some servers those that run.
func (n *nativeTools) use(servers map[string]*runningServer) {
	own := make(map[string]*runningServer)
	for key, s := range servers {
		if s.Native != nil {
			own[key] = s
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.of = own
}

// Get returns those of a key, nil when there are none.
func (n *nativeTools) Get(key string) *runningServer {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.of[key]
}

// all returns all, sorted by key.
func (n *nativeTools) all() []*native.Plugin {
	n.mu.RLock()
	defer n.mu.RUnlock()
	out := make([]*native.Plugin, 0, len(n.of))
	for _, key := range slices.Sorted(maps.Keys(n.of)) {
		out = append(out, n.of[key].Native)
	}
	return out
}

// NativeOperator is what is known of a native tool. What the gateway ships is
// vouched for; what a plugin says of its own risk counts, and of itself otherwise
// as much as the word of any server.
func (in *Daemon) NativeOperator(server, tool string) governance.Operator {
	running := in.Natives.Get(server)
	if running == nil {
		return governance.Operator{}
	}
	facts, ok := running.Native.Facts(tool)
	if !ok {
		return governance.Operator{}
	}
	said := governance.Operator{Risk: governance.Risk(facts.Risk), HighCost: facts.Queue}
	if running.Native.Spec().Shipped {
		said.ReadOnly, said.Destructive = &facts.ReadOnly, &facts.Destructive
	}
	return said
}

// NativeRates are the rates that native tools have of themselves, but for those of
// which the file says something.
func (in *Daemon) NativeRates() []rate.Rule {
	var rules []rate.Rule
	c := in.Current()
	for _, plugin := range in.Natives.all() {
		set, _ := c.Server(plugin.Name())
		for _, tool := range plugin.Tools() {
			facts, _ := plugin.Facts(tool)
			if facts.RatePerHour == 0 || set.Tools[tool].RateLimitPerHour != 0 {
				continue
			}
			rules = append(rules, rate.Rule{
				Name: fmt.Sprintf("native %q %q", plugin.Name(), tool), Per: []rate.Dimension{rate.PerPrincipal},
				Rate: rate.Rate{Limit: int64(facts.RatePerHour), Window: time.Hour},
				Match: func(call *rate.Call) bool {
					return call.Server == plugin.Name() && call.Original == tool && call.Kind == "tool"
				},
			})
		}
	}
	return rules
}

// layersOf are the layers of confinement of native tools, for people.
func layersOf(s *runningServer) string {
	if s.Native == nil {
		return ""
	}
	return layersText(s.Native.Layers())
}

// layersText names layers of confinement for people.
func layersText(layers []string) string {
	if len(layers) == 0 {
		return "none"
	}
	return strings.Join(layers, ", ")
}

// serverOf is a server of the file.
type serverOf struct{ reached }

// Kind implements [federated].
func (s serverOf) Kind() string {
	spec := s.Spec()
	return spec.Kind()
}

// nativeLogs are the last lines of native tools, of all their processes.
func nativeLogs(s *runningServer) admin.ServerLogs {
	lines, ended := s.Native.Stderr()
	return admin.ServerLogs{Server: s.Name(), Process: 1, Ended: ended, Lines: append([]string{}, lines...)}
}
