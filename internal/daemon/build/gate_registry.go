package build

import (
	"context"

	"github.com/toolgate/toolgate/config"
)

// addRegistry adds the phase of the capability catalog. It only restricts, so it does
// not count as a phase that decides.
func (g *Gates) addRegistry(_ context.Context, c *config.Config, around Surroundings) (err error) {
	if g.Catalog, err = c.Toolgate.Registry.Rules(g.authenticated); err != nil {
		return err
	}
	if g.registry = around.Registry; g.registry != nil {
		g.phases = append(g.phases, g.registry.Phase())
	}
	return nil
}
