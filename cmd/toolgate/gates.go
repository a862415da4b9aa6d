package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/capsule"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/proxy"
)

// gates are the parts of a gateway that decide, made of one configuration.
type gates struct {
	chain     *gate.Chain
	capsules  *capsule.Phase        // nil when none are configured
	arguments proxy.ArgumentChecker // nil checks nothing
}

// newGates makes the gate of a configuration. Without authentication and rules
// everyone is local and may do everything; with authentication, something must
// decide, or it must have been said that nothing does.
func newGates(c *config.Config, authenticated bool) (*gates, error) {
	g := &gates{}
	var phases []gate.Phase
	if len(c.Toolgate.Capsules) > 0 {
		var err error
		if g.capsules, err = newCapsules(c); err != nil {
			return nil, exit(exitConfig, fmt.Errorf("%s: %w", c.Path, err))
		}
		phases = append(phases, g.capsules)
	}
	if len(phases) == 0 {
		if authenticated && !c.Toolgate.Gate.Open {
			return nil, exitf(exitConfig, "%s: authentication is configured, but nothing decides who may call what; "+
				"write capsules, or `gate: { open: true }` under toolgate if everyone known may call everything", c.Path)
		}
		phases = append(phases, gate.Open{})
	}
	g.chain = gate.NewChain(phases...)
	if authenticated || g.capsules != nil {
		g.arguments = checkedArguments{schema.New(schema.Options{})}
	}
	return g, nil
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

// checkedArguments holds the arguments of calls against the tools' schemas.
type checkedArguments struct{ checker *schema.Checker }

// CheckArguments implements [proxy.ArgumentChecker].
func (a checkedArguments) CheckArguments(_ context.Context, r *gate.Request, input []byte) error {
	result, err := a.checker.Check(input, r.Args)
	if quarantined, ok := errors.AsType[*schema.Quarantined](err); ok {
		return proxy.Quarantined(r.Exposed, quarantined.Reason, quarantined.Busy)
	}
	if err != nil {
		return err
	}
	if !result.Valid {
		return proxy.BadArguments(result.Text())
	}
	return nil
}
