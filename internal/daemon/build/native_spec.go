package build

import (
	"encoding/json"
	"fmt"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/group"
)

// nativeSpec converts a group of native tools, or a plugin, to the spec for package
// native.
func nativeSpec(s *config.Server, c *config.Config, off *KeptOff) (native.Spec, error) {
	spec := native.Spec{
		Key: s.Key, Shipped: true, Result: int(c.Toolgate.Limits.Result),
		Timeouts: native.Timeouts{Call: s.Timeouts.Call, Idle: s.Timeouts.Idle, Hard: s.Timeouts.Hard},
	}
	switch n := s.Native.(type) {
	case *native.PluginSettings:
		return PluginSpec(spec, n, c, off)
	case group.Settings:
		return groupSpec(spec, n, off)
	}
	return spec, fmt.Errorf("the native tools %s are %s", s.Key, "not available in this version")
}

// groupSpec makes the spec of a group from the common spec of native tools.
func groupSpec(spec native.Spec, n group.Settings, off *KeptOff) (native.Spec, error) {
	child := n.Child(off.gateway())
	if spec.Inside = child.Inside; !spec.Inside {
		spec.Policy, spec.Env, spec.Runs, spec.Refused = child.Policy, child.Env, child.Runs, child.Refused
	}
	if child.Config == nil {
		child.Config = struct{}{}
	}
	var err error
	if spec.Config, err = json.Marshal(child.Config); err != nil {
		return spec, fmt.Errorf("write down the settings of %s: %w", spec.Key, err)
	}
	return spec, nil
}

// NativeSpecs returns the specs of the native tools among some servers, by key.
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
