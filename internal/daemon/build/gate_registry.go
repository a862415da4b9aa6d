package build

import (
	"context"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/native/group"
)

// addRegistry adds the phase of the capability catalog. It only restricts, so it does
// not count as a phase that decides.
func (g *Gates) addRegistry(_ context.Context, c *config.Config, around Surroundings) (err error) {
	if g.Catalog, err = c.Toolgate.Registry.Rules(g.authenticated); err != nil {
		return err
	}
	if c.Toolgate.Registry.ShippedSeed {
		g.Catalog.Shipped = shipped(c)
	}
	if g.registry = around.Registry; g.registry != nil {
		g.phases = append(g.phases, g.registry.Phase())
	}
	return nil
}

// shipped returns what toolgate knows of the tools of the servers of a configuration. A
// plugin of the name of a group is not that group.
func shipped(c *config.Config) *registry.Shipped {
	programs, groups := map[string]string{}, []string{enable.Name}
	for i := range c.Servers {
		s := &c.Servers[i]
		if _, own := s.Native.(group.Settings); own {
			groups = append(groups, s.Key)
		} else if s.Native == nil {
			programs[s.Key] = s.Program()
		}
	}
	return registry.NewShipped(programs, groups...)
}
