package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
)

// This file serves the tools that the configuration declares, each namespace of
// them as a backend.

// declaredTools are the tools of a configuration by namespace. No command
// gets at what it is kept off. The error says everything that is wrong with them.
func declaredTools(c *config.Config, off *keptOff) (map[string][]declared.Tool, error) {
	out := make(map[string][]declared.Tool)
	checker := schema.New(schema.Options{})
	var wrong []error
	for i := range c.Toolgate.Tools {
		t := &c.Toolgate.Tools[i]
		made, err := declaredTool(c, t, off)
		err = errors.Join(err, declaredSchemas(checker, t))
		if err != nil {
			wrong = append(wrong, fmt.Errorf("the tool %s: %w", t.Name, err))
			continue
		}
		out[t.Namespace] = append(out[t.Namespace], made)
	}
	return out, errors.Join(wrong...)
}

// declaredSchemas refuses schemas of which a part would not be checked: an
// operator who wrote it counts on all of it.
func declaredSchemas(checker *schema.Checker, t *config.DeclaredTool) error {
	var wrong []error
	for name, raw := range map[string][]byte{"input_schema": t.InputSchema, "output_schema": t.OutputSchema} {
		if len(raw) == 0 {
			continue
		}
		s, err := checker.Compile(raw)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
		} else if left := s.Partial(); len(left) > 0 {
			wrong = append(wrong, fmt.Errorf("%s: this cannot be checked, write it in another way: %s", name, strings.Join(left, "; ")))
		}
	}
	return errors.Join(wrong...)
}

func declaredTool(c *config.Config, t *config.DeclaredTool, off *keptOff) (declared.Tool, error) {
	readOnly, destructive := toolClass(t.Class)
	out := declared.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, Input: t.InputSchema, Output: t.OutputSchema,
		ReadOnly: readOnly, Destructive: destructive, Timeout: t.Timeout, MaxBytes: int64(t.MaxBytes), Answer: t.Answer,
		OpenWorld: new(t.Type == "http" || t.Network == "full"),
	}
	if t.Idempotent {
		out.Idempotent = new(true)
	}
	if t.Type == "http" {
		out.HTTP = &declared.HTTP{
			Method: t.Method, URL: t.URL, Headers: Revealed(t.Headers), Query: Revealed(t.Query), HeaderTemplates: t.HeaderTemplates,
			Body: t.Body, Redirects: t.Redirects,
		}
		for _, text := range t.AllowAddresses {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return out, fmt.Errorf("allow_addresses: %w", err)
			}
			out.HTTP.Allow = append(out.HTTP.Allow, prefix)
		}
		return out, nil
	}
	var err error
	out.Command, err = DeclaredCommand(c, t, off)
	return out, err
}

// systemPrograms are the folders of the programs of the system.
var systemPrograms = []string{"/usr/local/bin", "/usr/bin", "/bin"}

func DeclaredCommand(c *config.Config, t *config.DeclaredTool, off *keptOff) (*declared.Command, error) {
	program, err := programPath(c, t.Args[0])
	if err != nil {
		return nil, err
	}
	p := sandbox.Policy{
		Mode: runMode(t.Sandbox), Read: slices.Clone(t.Read), Write: t.Write, Run: t.Run, Temp: true,
		CPU: t.Limits.CPU, Memory: int64(t.Limits.Memory), FileSize: int64(t.Limits.FileSize), Files: t.Limits.Files, Processes: t.Limits.Processes,
	}
	if t.Network == "full" {
		p.Network = sandbox.FullNetwork
	}
	if t.Cwd != "" {
		p.Read = append(p.Read, t.Cwd)
	}
	if err := cmp.Or(keepsOff(&p, off.own), off.check(p.Write)); err != nil {
		return nil, err
	}
	if p.Run == nil && runtime.GOOS != "windows" {
		for _, folder := range systemPrograms {
			if _, err := os.Stat(folder); err == nil {
				p.Run = append(p.Run, folder)
			}
		}
	}
	return &declared.Command{
		Args: append([]string{program}, t.Args[1:]...), Dashes: t.Dashes, Stdin: t.Stdin, Env: Revealed(t.Env), Dir: t.Cwd, Policy: p,
	}, nil
}

// programPath is where a program is: with a slash relative to the file, else in
// the gateway's PATH.
func programPath(c *config.Config, name string) (string, error) {
	path := name
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) && c.Path != "" {
			path = filepath.Join(filepath.Dir(c.Path), name)
		}
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("the program %s is not there or cannot be run; write its path: %w", name, err)
	}
	return filepath.Abs(found)
}

// keepsOff refuses a command that would get at the gateway's own files: whoever
// can write them chooses what runs, and whoever reads them has its secrets.
func keepsOff(p *sandbox.Policy, own []string) error {
	self, _ := os.Executable()
	real, _ := filepath.EvalSymlinks(self)
	for _, grant := range []struct {
		key   string
		paths []string
	}{{"write", p.Write}, {"read or cwd", p.Read}, {"run", p.Run}} {
		for _, path := range grant.paths {
			for _, form := range []string{path, realPath(path)} {
				for _, mine := range own {
					if grant.key != "write" && (mine == self || mine == real) {
						continue // the program itself holds no secret
					}
					if inside(mine, form) || inside(form, mine) {
						return fmt.Errorf("%s: %s would give a program of the configuration the gateway's own %s; move one of them", grant.key, path, mine)
					}
				}
			}
		}
	}
	return nil
}

// realPath is a path without symbolic links, as far as it exists.
func realPath(path string) string {
	rest := ""
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		if at == filepath.Dir(at) {
			return path
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// inside tells whether a path is a folder or in it.
func inside(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// declaredRules are what the declarations say of their tools, as rules.
func declaredRules(c *config.Config) []governance.Rule {
	var rules []governance.Rule
	for i := range c.Toolgate.Tools {
		t := &c.Toolgate.Tools[i]
		r := governance.Rule{
			Match: nameOf(t.Namespace) + t.Name, At: RuleAt(c, fmt.Sprintf("tools[%d].", i)), Risk: governance.Risk(t.Risk), Category: t.Category,
			HighCost: t.Queue, // which mode DEGRADED has none of
		}
		r.ReadOnly, r.Destructive = toolClass(t.Class)
		if t.Approval {
			r.AskIn = governance.Modes()
		}
		rules = append(rules, r)
	}
	return rules
}

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
func newDeclared(c *config.Config, off *keptOff) (map[string]*declaredServer, error) {
	tools, err := declaredTools(c, off)
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
	made, err := newDeclared(c, KeepOff(c, OwnFiles(c, state)))
	for _, s := range made {
		s.Close()
	}
	return err
}

// declaredFor returns the backends of a configuration: those that run where the
// declarations are the same.
func (in *Daemon) declaredFor(c *config.Config, off *keptOff) (map[string]*declaredServer, error) {
	in.mu.Lock()
	now, of := in.declared, in.inForce
	in.mu.Unlock()
	if now != nil && reflect.DeepEqual(of.Toolgate.Tools, c.Toolgate.Tools) {
		// What else there is may be started from what they write.
		if err := off.checkTools(c.Toolgate.Tools); err != nil {
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
		servers = append(servers, config.Server{Key: namespace, Namespace: namespace, Timeouts: config.Timeouts{Hard: declaredHard}})
	}
	made, err := NewMounts(c, servers)
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
		mount := m.on(s.served)
		mount.Native, mount.External = true, s.external
		mounts = append(mounts, mount)
	}
	in.declared = next
	return mounts, nil
}

// declaredHard bounds a call of a declared tool whatever its timeout.
const declaredHard = 25 * time.Hour

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
			Tokens: ListingTokens(l), Tools: len(l.Items[mcp.Tool]), Sandbox: declaredLayers(s.Backend),
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

// queueLimits are those of the configuration.
func queueLimits(c *config.Config) queue.Limits {
	q := c.Toolgate.Queue
	return queue.Limits{Workers: q.Workers, Waiting: q.Waiting, PerPrincipal: q.WaitingPerPrincipal, Keep: q.Keep, Hard: declaredHard}
}

// addDeclared adds the declared tools to what is known of a configuration.
func (inv *inventory) addDeclared(c *config.Config) {
	if len(c.Toolgate.ToolURLs) > 0 {
		inv.unseen = append(inv.unseen, nameOf("")) // what they hold may have any name
	}
	for i := range c.Toolgate.Tools {
		t := &c.Toolgate.Tools[i]
		if !slices.Contains(inv.Servers, t.Namespace) {
			inv.Servers = append(inv.Servers, t.Namespace)
		}
		inv.add(gate.Request{Kind: mcp.Tool, Server: t.Namespace, Original: t.Name, Exposed: nameOf(t.Namespace) + t.Name}, t.InputSchema)
	}
}
