package build

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/upstream"
)

// nativeSpec is a group of native tools, or a plugin, as package native takes it.
func nativeSpec(s *config.Server, c *config.Config, off *KeptOff) (native.Spec, error) {
	spec := native.Spec{
		Key: s.Key, Shipped: true, Result: int(c.Toolgate.Limits.Result),
		Timeouts: native.Timeouts{Call: s.Timeouts.Call, Idle: s.Timeouts.Idle, Hard: s.Timeouts.Hard},
	}
	var settings any
	switch n := s.Native.(type) {
	case *config.Plugin:
		return PluginSpec(spec, n, c, off)
	case *config.NativeUtil:
		settings, spec.Policy = struct{}{}, NativePolicy(n.Sandbox, &n.Limits)
	case *config.NativeFS:
		settings = map[string]any{
			"roots": n.Roots, "write": n.Write, "own": off.Own, "fixed": off.Started(), "forbidden": n.Forbidden, "hard_links": n.HardLinks, "max_bytes": int64(n.MaxBytes),
		}
		spec.Policy = NativePolicy(n.Sandbox, &n.Limits)
		spec.Policy.Read, spec.Policy.Write = n.Roots, n.Write
	case *config.NativeSystem:
		settings = map[string]any{"logs": n.Logs, "disks": n.Disks, "own": off.Own, "max_bytes": int64(n.MaxBytes)}
		spec.Policy = NativePolicy(n.Sandbox, &n.Limits)
		spec.Policy.Read = slices.Concat(n.Logs, n.Disks, existing("/proc", "/sys", "/etc"))
	case *config.NativeWeb:
		settings = webSettings(n)
		spec.Policy = NativePolicy(n.Sandbox, &n.Limits)
		spec.Policy.Read, spec.Policy.Network = existing("/etc"), sandbox.FullNetwork
	case *config.NativeCode:
		settings = CodeSettings(n, off)
		// The process itself only starts what runs, each run confined by itself.
		spec.Policy = sandbox.Policy{Mode: sandbox.Off}
		if n.Container.Runtime == "" { // which confines execute
			spec.Refused = sandbox.Refusal(sandbox.Policy{Mode: RunMode(n.Sandbox)})
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

func CodeSettings(n *config.NativeCode, off *KeptOff) map[string]any {
	commands := func(of map[string]config.CodeCommand) map[string]any {
		out := make(map[string]any, len(of))
		for name, c := range of {
			command := slices.Clone(c.Command)
			command[0] = commandPath(command[0])
			out[name] = map[string]any{"command": command, "env": c.Env}
		}
		return out
	}
	python, library := off.Python()
	settings := map[string]any{
		"roots": n.Roots, "write": n.Write, "own": off.Own, "fixed": off.Started(), "python": python, "library": library, "git": commandPath("git"),
		"linters": commands(n.Linters), "tests": commands(n.Tests), "timeout": n.Timeout, "max_bytes": int64(n.MaxBytes),
		"queue": n.Queue, "workers": n.Workers, "sandbox": RunMode(n.Sandbox),
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

// NativePolicy is the confinement that is set for all groups alike.
func NativePolicy(mode config.Sandboxing, l *config.NativeLimits) sandbox.Policy {
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

// NativeSpecs are the native tools among some servers, by key.
func NativeSpecs(servers []config.Server, c *config.Config, off *KeptOff) (map[string]native.Spec, error) {
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

// nativeCPU is the processor time of a process that serves for as long as the
// gateway does.
const nativeCPU = 720 * time.Hour

// RunMode is how code and commands are confined that a caller has a say in. Where
// nothing is written they do not run unconfined.
func RunMode(written config.Sandboxing) sandbox.Mode {
	if written == "" {
		return sandbox.Required
	}
	return sandbox.Mode(written)
}
