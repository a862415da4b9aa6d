package build

import (
	"context"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate/capsule"
	"github.com/toolgate/toolgate/native/declared"
)

// addCapsules adds the phase of capsules.
func (g *Gates) addCapsules(_ context.Context, c *config.Config, _ Surroundings) (err error) {
	if len(c.Toolgate.Capsules) == 0 {
		return nil
	}
	narrows := func(name string) bool {
		for _, a := range c.Toolgate.Agents { //nolint:gocritic // settings are read once
			if a.Capsule == name {
				return true
			}
		}
		return slices.ContainsFunc(c.Toolgate.Tools, func(t declared.Settings) bool { return t.RunAs == name })
	}
	if g.Capsules, err = capsule.Configured(c.Toolgate.Capsules, narrows, Places(c, "capsules.")); err != nil {
		return err
	}
	g.phases = append(g.phases, g.Capsules)
	g.decides = g.decides || g.Capsules.Decides()
	return nil
}

// Places returns a function that tells where the values of a section are written.
// prefix is prepended to their paths.
func Places(c *config.Config, prefix string) func(path string) (file string, line int) {
	return func(path string) (string, int) {
		at := c.Origin(prefix + path)
		return at.File, at.Line
	}
}
