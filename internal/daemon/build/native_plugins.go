package build

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/group"
	"github.com/toolgate/toolgate/upstream"
)

// PluginSpec makes the spec of a third-party plugin from the common spec of native
// tools.
func PluginSpec(spec native.Spec, n *config.Plugin, c *config.Config, off *KeptOff) (native.Spec, error) {
	spec.Shipped = false
	spec.Path, spec.SHA256, spec.Args, spec.AutoMTLS = n.Path, n.SHA256, n.Args, n.AutoMTLS == nil || *n.AutoMTLS
	spec.Config, spec.Timeouts.Start = n.Config, n.StartTimeout
	env := make(map[string]string, len(n.Env))
	for name, value := range n.Env {
		env[name] = value.Reveal()
	}
	spec.Env = upstream.Environment(env, nil, os.LookupEnv)
	p := n.Limits.Policy(n.Sandbox)
	p.Read, p.Write, p.Run, p.Temp = n.Read, n.Write, n.Run, true
	if n.Network == "full" {
		p.Network = sandbox.FullNetwork
	}
	spec.Policy = p
	if p.Mode == sandbox.Off {
		return spec, nil // there is nothing that is granted
	}
	if err := pluginKeepsOff(&p, c, off); err != nil {
		return spec, fmt.Errorf("native.plugins.%s: %w", spec.Key, err)
	}
	if p.Run == nil {
		spec.Policy.Run = group.Existing(systemPrograms...)
	}
	return spec, nil
}

// pluginKeepsOff refuses a plugin with access to the gateway's own files. The programs
// of plugins are not secret: they may be read and run, but not changed.
func pluginKeepsOff(p *sandbox.Policy, c *config.Config, off *KeptOff) error {
	programs := make([]string, 0, 2*len(c.Toolgate.Native.Plugins))
	for _, other := range c.Toolgate.Native.Plugins {
		programs = append(programs, other.Path, realPath(other.Path))
	}
	secret := slices.DeleteFunc(slices.Clone(off.Own), func(path string) bool { return slices.Contains(programs, path) })
	return cmp.Or(
		keepsOff(&sandbox.Policy{Read: p.Read, Run: p.Run}, secret),
		keepsOff(&sandbox.Policy{Write: p.Write}, off.Own),
		off.check(p.Write),
	)
}
