package build

import (
	"context"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/store"
)

// addRegistry adds the phase of the capability catalog. It only restricts, so
// that it decides nothing for others.
func (g *Gates) addRegistry(_ context.Context, c *config.Config, around Surroundings) (err error) {
	if g.Catalog, err = registrySettings(c, g.authenticated); err != nil {
		return err
	}
	if g.registry = around.Registry; g.registry != nil {
		g.phases = append(g.phases, g.registry.Phase())
	}
	return nil
}

// registrySettings are the settings of a configuration, with its seed read.
// Where callers are told apart, what nobody has looked at is held.
func registrySettings(c *config.Config, authenticated bool) (registry.Settings, error) {
	r := &c.Toolgate.Registry
	s := registry.Settings{
		DefaultEnabled: r.Default != "disabled",
		OnNew:          registry.Policy(r.OnNew), OnChange: registry.Policy(r.OnChange),
	}
	if s.OnNew == "" {
		s.OnNew = registry.Enable
		if authenticated {
			s.OnNew = registry.Adopt
		}
	}
	if s.OnChange == "" {
		s.OnChange = registry.Enable
		if authenticated {
			s.OnChange = registry.Hold
		}
	}
	if r.Seed == "" {
		return s, nil
	}
	file, err := config.LoadSeed(r.Seed)
	if err != nil {
		return s, err
	}
	s.Seed, err = SeedOf(file)
	return s, err
}

// SeedOf is a seed file as the registry takes it.
func SeedOf(file *config.Seed) (*registry.Seed, error) {
	seed := &registry.Seed{}
	for i := range file.Capabilities {
		c := &file.Capabilities[i]
		seed.Entries = append(seed.Entries, registry.SeedEntry{
			Name: c.Name, Server: c.Server, Original: c.Original, Kind: c.Kind, Enabled: c.Enabled,
			DisplayName: c.DisplayName, Category: c.Category, Class: Class(c.Class, c.Risk, c.HighCost), Definition: c.Definition,
			Tenants: c.Tenants, DenyPersonas: c.DenyPersonas, At: gate.Rule{File: file.File, Line: file.Line(i), Text: c.Name + c.Original},
		})
	}
	for _, s := range file.Servers {
		seed.Servers = append(seed.Servers, registry.SeedServer{Server: s.Server, Entry: s.Entry, Tenant: s.Tenant, Arguments: s.Arguments})
	}
	return seed, seed.Check()
}

// Classes of a capability, as people write them.
const (
	ClassReadOnly    = "read-only"
	ClassWrite       = "write"
	ClassDestructive = "destructive"
)

// Class is what an operator says of a capability; an empty word says nothing.
func Class(word, risk string, highCost *bool) store.Class {
	c := store.Class{Risk: risk, HighCost: highCost}
	switch word {
	case ClassReadOnly:
		c.ReadOnly, c.Destructive = new(true), new(false)
	case ClassWrite:
		c.ReadOnly, c.Destructive = new(false), new(false)
	case ClassDestructive:
		c.ReadOnly, c.Destructive = new(false), new(true)
	}
	return c
}
