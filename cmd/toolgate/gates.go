package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/capsule"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/proxy"
)

// gates are the parts of a gateway that decide, made of one configuration.
type gates struct {
	chain     *gate.Chain
	capsules  *capsule.Phase        // nil when none are configured
	policy    *opa.Phase            // nil when none is configured
	arguments proxy.ArgumentChecker // nil checks nothing
	log       *slog.Logger
}

// surroundings are what the gate of a gateway has besides its configuration.
type surroundings struct {
	log     *slog.Logger
	copies  string // folder for the last good policy; empty keeps none
	changed func() // is told that decisions may be others now; may be nil
}

// newGates makes the gate of a configuration. Without authentication and rules
// everyone is local and may do everything; with authentication, something must
// decide, or it must have been said that nothing does.
func newGates(ctx context.Context, c *config.Config, authenticated bool, around surroundings) (*gates, error) {
	g := &gates{log: around.log}
	var phases []gate.Phase
	decides := false // a policy in shadow mode does not
	if len(c.Toolgate.Capsules) > 0 {
		var err error
		if g.capsules, err = newCapsules(c); err != nil {
			return nil, exit(exitConfig, fmt.Errorf("%s: %w", c.Path, err))
		}
		phases, decides = append(phases, g.capsules), true
	}
	if o := &c.Toolgate.OPA; o.Path != "" || o.Bundle != "" || o.URL != "" {
		var err error
		if g.policy, err = newPolicy(ctx, c, around); err != nil {
			return nil, exit(exitConfig, fmt.Errorf("%s: %w", c.Path, err))
		}
		phases, decides = append(phases, g.policy), decides || opa.Mode(o.Mode) != opa.Shadow
	}
	if !decides {
		if authenticated && !c.Toolgate.Gate.Open {
			return nil, exitf(exitConfig, "%s: authentication is configured, but nothing decides who may call what; "+
				"write capsules or opa, or `gate: { open: true }` under toolgate if everyone known may call everything", c.Path)
		}
		phases = append([]gate.Phase{gate.Open{}}, phases...)
	}
	g.chain = gate.NewChain(phases...)
	if authenticated || decides {
		g.arguments = checkedArguments{schema.New(schema.Options{})}
	}
	return g, nil
}

// run keeps up with what the gate is made of until the context ends.
func (g *gates) run(ctx context.Context) {
	if g.policy == nil {
		return
	}
	if err := g.policy.Run(ctx); err != nil {
		g.log.Error("the policy is not kept up with any more", "err", err)
	}
}

// listed tells the policy what there is.
func (g *gates) listed(names []string) {
	data := opa.Data{ToolCatalog: make(map[string]opa.Tool, len(names))}
	for _, name := range names {
		data.ToolCatalog[name] = opa.Tool{Enabled: true}
	}
	if err := g.policy.SetData(data); err != nil {
		g.log.Error("the policy does not take the catalog; it decides by what it had before", "err", err)
	}
}

// newPolicy is the policy of a configuration, loaded.
func newPolicy(ctx context.Context, c *config.Config, around surroundings) (*opa.Phase, error) {
	o := &c.Toolgate.OPA
	log := around.log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return opa.New(ctx, opa.Options{
		Path: o.Path, Bundle: o.Bundle, URL: o.URL, CopyDir: around.copies, Decision: o.Decision,
		RegoVersion: opa.RegoVersion(o.RegoVersion), Mode: opa.Mode(o.Mode), Actions: o.Actions,
		MaxInput: int(c.Toolgate.Limits.PolicyInput), OnChange: around.changed, Logger: log,
		OnShadow: func(r *gate.Request, would gate.Decision) {
			log.Info("the policy would have denied this", "action", r.Action, "name", r.Exposed, "caller", r.Identity, "reason", would.Reason)
		},
	})
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
