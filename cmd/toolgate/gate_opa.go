package main

import (
	"context"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
)

// addPolicy adds the phase of the Rego policy. In shadow mode it is asked and
// decides nothing.
func (g *gates) addPolicy(ctx context.Context, c *config.Config, around surroundings) (err error) {
	o := &c.Toolgate.OPA
	if o.Path == "" && o.Bundle == "" && o.URL == "" {
		return nil
	}
	if g.policy, err = newPolicy(ctx, c, around); err != nil {
		return err
	}
	g.phases = append(g.phases, g.policy)
	g.decides = g.decides || opa.Mode(o.Mode) != opa.Shadow
	g.keepers = append(g.keepers, keepingUpTo{g.policy.Name(), g.policy.Run})
	return nil
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
	return opa.New(ctx, opa.Options{
		Path: o.Path, Bundle: o.Bundle, URL: o.URL, CopyDir: around.copies, Decision: o.Decision,
		RegoVersion: opa.RegoVersion(o.RegoVersion), Mode: opa.Mode(o.Mode), Actions: o.Actions,
		MaxInput: int(c.Toolgate.Limits.PolicyInput), OnChange: around.changed, Logger: log,
		OnShadow: func(r *gate.Request, would gate.Decision) {
			log.Info("the policy would have denied this", "action", r.Action, "name", r.Exposed, "caller", r.Identity, "reason", would.Reason)
		},
	})
}
