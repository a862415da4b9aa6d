package build

import (
	"context"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
)

// addOwners adds the phase that reserves servers for the callers who added them, and
// registered tools for those who registered them.
func (g *Gates) addOwners(_ context.Context, _ *config.Config, around Surroundings) error {
	if len(around.Owners)+len(around.ToolOwners) > 0 {
		g.phases = append(g.phases, gate.NewOwners(around.Owners, around.ToolOwners))
	}
	return nil
}

// addPersonal adds the phase of servers with a different list for each caller.
func (g *Gates) addPersonal(_ context.Context, _ *config.Config, around Surroundings) error {
	if len(around.Personal) > 0 {
		g.phases = append(g.phases, gate.NewPersonal(around.Personal))
	}
	return nil
}
