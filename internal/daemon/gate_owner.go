package daemon

import (
	"context"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
)

// addOwners adds the phase of servers that belong to who added them.
func (g *gates) addOwners(_ context.Context, _ *config.Config, around Surroundings) error {
	if len(around.owners) > 0 {
		g.phases = append(g.phases, gate.NewOwners(around.owners))
	}
	return nil
}

// addPersonal adds the phase of servers that list otherwise for each caller.
func (g *gates) addPersonal(_ context.Context, _ *config.Config, around Surroundings) error {
	if len(around.personal) > 0 {
		g.phases = append(g.phases, gate.NewPersonal(around.personal))
	}
	return nil
}
