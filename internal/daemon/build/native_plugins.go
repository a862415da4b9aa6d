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
)

// PluginSpec makes the spec of a third-party plugin from the common spec of native
// tools.
func PluginSpec(spec native.Spec, n *native.PluginSettings, c *config.Config, off *KeptOff) (native.Spec, error) {
	n.Apply(&spec, os.LookupEnv)
	if spec.Policy.Mode == sandbox.Off {
		return spec, nil // there is nothing that is granted
	}
	if err := pluginKeepsOff(&spec.Policy, c, off); err != nil {
		return spec, fmt.Errorf("native.plugins.%s: %w", spec.Key, err)
	}
	if spec.Policy.Run == nil {
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
