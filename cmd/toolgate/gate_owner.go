package main

import (
	"context"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
)

// addOwners adds the phase of servers that belong to who added them.
func (g *gates) addOwners(_ context.Context, _ *config.Config, around surroundings) error {
	if len(around.owners) > 0 {
		g.phases = append(g.phases, gate.NewOwners(around.owners))
	}
	return nil
}
