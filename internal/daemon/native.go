package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/upstream"
)

// federated is what the gateway stands before: a server, or tools of its own.
type federated interface {
	proxy.Backend
	Kind() string
	Drain(ctx context.Context)
}

// nativeCPU is the processor time of a process that serves for as long as the
// gateway does.
const nativeCPU = 720 * time.Hour

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
	in.rates.renew(rateRules(in.Current()), in.NativeRates())
	in.Changed(key)
}

// nativeSpec is a group of native tools, or a plugin, as package native takes it.
func nativeSpec(s *config.Server, c *config.Config, off *keptOff) (native.Spec, error) {
	spec := native.Spec{
		Key: s.Key, Shipped: true, Result: int(c.Toolgate.Limits.Result),
		Timeouts: native.Timeouts{Call: s.Timeouts.Call, Idle: s.Timeouts.Idle, Hard: s.Timeouts.Hard},
	}
	var settings any
	switch n := s.Native.(type) {
	case *config.Plugin:
		return PluginSpec(spec, n, c, off)
	case *config.NativeUtil:
		settings, spec.Policy = struct{}{}, nativePolicy(n.Sandbox, &n.Limits)
	case *config.NativeFS:
		settings = map[string]any{
			"roots": n.Roots, "write": n.Write, "own": off.own, "fixed": off.Started(), "forbidden": n.Forbidden, "hard_links": n.HardLinks, "max_bytes": int64(n.MaxBytes),
		}
		spec.Policy = nativePolicy(n.Sandbox, &n.Limits)
		spec.Policy.Read, spec.Policy.Write = n.Roots, n.Write
	case *config.NativeSystem:
		settings = map[string]any{"logs": n.Logs, "disks": n.Disks, "own": off.own, "max_bytes": int64(n.MaxBytes)}
		spec.Policy = nativePolicy(n.Sandbox, &n.Limits)
		spec.Policy.Read = slices.Concat(n.Logs, n.Disks, existing("/proc", "/sys", "/etc"))
	case *config.NativeWeb:
		settings = webSettings(n)
		spec.Policy = nativePolicy(n.Sandbox, &n.Limits)
		spec.Policy.Read, spec.Policy.Network = existing("/etc"), sandbox.FullNetwork
	case *config.NativeCode:
		settings = CodeSettings(n, off)
		// The process itself only starts what runs, each run confined by itself.
		spec.Policy = sandbox.Policy{Mode: sandbox.Off}
		if n.Container.Runtime == "" { // which confines execute
			spec.Refused = sandbox.Refusal(sandbox.Policy{Mode: runMode(n.Sandbox)})
		}
		spec.Env = upstream.Environment(nil, nil, os.LookupEnv)
	default:
		return spec, fmt.Errorf("the native tools %s are %s", s.Key, "not available in this version")
	}
	var err error
	if spec.Config, err = json.Marshal(settings); err != nil {
		return spec, fmt.Errorf("write down the settings of %s: %w", s.Key, err)
	}
	return spec, nil
}

func webSettings(n *config.NativeWeb) map[string]any {
	headers := make(map[string]string, len(n.Search.Headers))
	for name, value := range n.Search.Headers {
		headers[name] = value.Reveal()
	}
	agent := n.UserAgent
	if agent == "" {
		agent = "toolgate/" + version.Version
	}
	return map[string]any{
		"allow_hosts": n.AllowHosts, "deny_hosts": n.DenyHosts, "allow_addresses": n.AllowAddresses, "ports": n.Ports,
		"max_bytes": int64(n.MaxBytes), "timeout": n.Timeout.String(), "redirects": n.Redirects, "user_agent": agent,
		"search": map[string]any{
			"url": n.Search.URL, "headers": headers, "results": n.Search.Results, "title": n.Search.Title, "link": n.Search.Link, "snippet": n.Search.Snippet,
		},
	}
}

func CodeSettings(n *config.NativeCode, off *keptOff) map[string]any {
	commands := func(of map[string]config.CodeCommand) map[string]any {
		out := make(map[string]any, len(of))
		for name, c := range of {
			command := slices.Clone(c.Command)
			command[0] = commandPath(command[0])
			out[name] = map[string]any{"command": command, "env": c.Env}
		}
		return out
	}
	python, library := off.python()
	settings := map[string]any{
		"roots": n.Roots, "write": n.Write, "own": off.own, "fixed": off.Started(), "python": python, "library": library, "git": commandPath("git"),
		"linters": commands(n.Linters), "tests": commands(n.Tests), "timeout": n.Timeout, "max_bytes": int64(n.MaxBytes),
		"queue": n.Queue, "workers": n.Workers, "sandbox": runMode(n.Sandbox),
		"limits": map[string]any{
			"memory": int64(n.Limits.Memory), "cpu": n.Limits.CPU, "file_size": int64(n.Limits.FileSize), "files": n.Limits.Files, "processes": n.Limits.Processes,
		},
	}
	if n.Container.Runtime != "" {
		settings["container"] = map[string]any{"runtime": commandPath(n.Container.Runtime), "image": n.Container.Image, "args": n.Container.Args}
	}
	return settings
}

// commandPath is where a program is; empty where it is not found, which the tools
// say when they are called.
func commandPath(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	if path, err = filepath.Abs(path); err != nil {
		return ""
	}
	return path
}

// nativePolicy is the confinement that is set for all groups alike.
func nativePolicy(mode config.Sandboxing, l *config.NativeLimits) sandbox.Policy {
	p := sandbox.Policy{
		Mode: sandbox.Auto, Memory: int64(l.Memory), CPU: l.CPU, FileSize: int64(l.FileSize), Files: l.Files, Processes: l.Processes,
	}
	if mode != "" {
		p.Mode = sandbox.Mode(mode)
	}
	if p.CPU == 0 {
		p.CPU = nativeCPU
	}
	return p
}

// existing are those of some paths that there are.
func existing(paths ...string) []string {
	if runtime.GOOS == "windows" {
		return nil
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
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

// nativeSpecs are the native tools among some servers, by key.
func nativeSpecs(servers []config.Server, c *config.Config, off *keptOff) (map[string]native.Spec, error) {
	specs := make(map[string]native.Spec)
	for i := range servers {
		if servers[i].Native == nil {
			continue
		}
		spec, err := nativeSpec(&servers[i], c, off)
		if err != nil {
			return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
		}
		specs[spec.Key] = spec
	}
	return specs, nil
}

// serverOf is a server of the file.
type serverOf struct{ reached }

// Kind implements [federated].
func (s serverOf) Kind() string {
	spec := s.Spec()
	return spec.Kind()
}

// either is what is said in one of two places, and where the first says nothing of
// a class, that of the second.
func either(first, second func(server, tool string) governance.Operator) func(server, tool string) governance.Operator {
	return func(server, tool string) governance.Operator {
		said, also := first(server, tool), second(server, tool)
		if said.ReadOnly == nil && said.Destructive == nil {
			said.ReadOnly, said.Destructive = also.ReadOnly, also.Destructive
		}
		said.HighCost = said.HighCost || also.HighCost
		if said.Risk == "" {
			said.Risk = also.Risk
		}
		return said
	}
}

// nativeLogs are the last lines of native tools, of all their processes.
func nativeLogs(s *runningServer) admin.ServerLogs {
	lines, ended := s.Native.Stderr()
	return admin.ServerLogs{Server: s.Name(), Process: 1, Ended: ended, Lines: append([]string{}, lines...)}
}
