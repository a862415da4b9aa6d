package build

import (
	"context"
	"fmt"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/capsule"
)

// addCapsules adds the phase of the named sets of capabilities.
func (g *Gates) addCapsules(_ context.Context, c *config.Config, _ Surroundings) (err error) {
	if len(c.Toolgate.Capsules) == 0 {
		return nil
	}
	if g.Capsules, err = newCapsules(c); err != nil {
		return err
	}
	g.phases, g.decides = append(g.phases, g.Capsules), true
	return nil
}

// newCapsules are the capsules of a configuration, each pattern with the line
// where it is written.
func newCapsules(c *config.Config) (*capsule.Phase, error) {
	var all []capsule.Capsule
	for name, set := range c.Toolgate.Capsules {
		at := "capsules." + name
		all = append(all, capsule.Capsule{
			Name: name, Visible: patterns(c, at+".visible", set.Visible), Callable: patterns(c, at+".callable", set.Callable),
			Personas: set.Personas, Groups: set.Groups,
		})
	}
	return capsule.New(all)
}

func patterns(c *config.Config, path string, globs []string) []capsule.Pattern {
	out := make([]capsule.Pattern, len(globs))
	for i, glob := range globs {
		at := c.Origin(fmt.Sprintf("%s[%d]", path, i))
		out[i] = capsule.Pattern{Glob: gate.Glob(glob), At: gate.Rule{File: at.File, Line: at.Line, Text: glob}}
	}
	return out
}
