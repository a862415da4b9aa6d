package build

import (
	"cmp"
	"context"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/mcp"
)

// addPolicy adds the phase of the Rego policy. In shadow mode the policy is asked, but
// decides nothing.
func (g *Gates) addPolicy(ctx context.Context, c *config.Config, around Surroundings) (err error) {
	o := &c.Toolgate.OPA
	if !o.Set() {
		return nil
	}
	if g.Policy, err = NewPolicy(ctx, c, around); err != nil {
		return err
	}
	g.phases = append(g.phases, g.Policy)
	g.decides = g.decides || o.Mode != opa.Shadow
	g.Keepers = append(g.Keepers, KeepingUpTo{What: g.Policy.Part().Name, Run: g.Policy.Run})
	return nil
}

// Listed passes the exposed names and their catalog data to the policy.
func (g *Gates) Listed(names []string) {
	data := PolicyData(names, g.registry.Listing())
	err := g.Policy.SetData(data)
	if err != nil && (data.TenantToolFlags != nil || data.PersonaToolDeny != nil || data.Tools != nil) {
		// A rule of the policy has the name of such a key. The registry phase enforces
		// the catalog's flags and restrictions.
		g.log.Warn("a rule of the policy has the name of a key of the catalog's; the policy sees the rule", "err", err)
		data.TenantToolFlags, data.PersonaToolDeny, data.Tools = nil, nil, nil
		err = g.Policy.SetData(data)
	}
	if err != nil {
		g.log.Error("the policy does not take the catalog; it decides by what it had before", "err", err)
	}
}

// PolicyData is the catalog as policies see it. The keys for flags and restrictions
// exist only where there are any, so that a policy may otherwise define them itself. A
// tool's data count under its name even if its server also lists a prompt with that
// name: the stricter statement wins.
func PolicyData(names []string, listing []registry.Listed) opa.Data {
	data := opa.Data{ToolCatalog: make(map[string]opa.Tool, len(names))}
	for _, name := range names {
		data.ToolCatalog[name] = opa.Tool{Enabled: true}
	}
	seen := map[string]registry.Listed{}
	for i := range listing {
		l := listing[i]
		before, there := data.ToolCatalog[l.Name]
		if !there {
			continue
		}
		if other, twice := seen[l.Name]; twice {
			l.Class = l.Class.With(other.Class)
			if l.Category = cmp.Or(l.Category, other.Category); other.Kind == mcp.Tool.String() {
				l.Kind, l.Category = other.Kind, cmp.Or(other.Category, l.Category)
			}
		}
		seen[l.Name] = l
		attributes := map[string]any{
			"kind": l.Kind, "read_only": l.Class.ReadOnly, "destructive": l.Class.Destructive, "operator_classed": l.Class.OperatorClassed,
		}
		for name, value := range map[string]string{"category": l.Category, "risk": string(l.Class.Risk)} {
			if value != "" {
				attributes[name] = value
			}
		}
		data.ToolCatalog[l.Name] = opa.Tool{Enabled: l.Enabled && before.Enabled, Attributes: attributes}
		for tenant, on := range l.Flags {
			if data.TenantToolFlags == nil {
				data.TenantToolFlags = map[string]map[string]opa.Flag{}
			}
			if data.TenantToolFlags[tenant] == nil {
				data.TenantToolFlags[tenant] = map[string]opa.Flag{}
			}
			if f, twice := data.TenantToolFlags[tenant][l.Name]; twice {
				on = on && f.Enabled
			}
			data.TenantToolFlags[tenant][l.Name] = opa.Flag{Enabled: on}
		}
		for _, persona := range l.Personas {
			if data.PersonaToolDeny == nil {
				data.PersonaToolDeny = map[string][]string{}
			}
			data.PersonaToolDeny[persona] = append(data.PersonaToolDeny[persona], l.Name)
		}
	}
	data.Tools = data.ToolCatalog
	return data
}

// policyChanged announces that the policy's decisions have changed.
func (around Surroundings) policyChanged() {
	for _, tell := range []func(){around.Decided, around.Reread} {
		if tell != nil {
			tell()
		}
	}
}

// NewPolicy loads the policy of a configuration.
func NewPolicy(ctx context.Context, c *config.Config, around Surroundings) (*opa.Phase, error) {
	log := around.Log
	return opa.New(ctx, opa.Options{
		Settings: c.Toolgate.OPA, CopyDir: around.Copies, InputLimits: c.Toolgate.Limits.InputLimits,
		OnChange: around.policyChanged, OnFailure: around.Failed, Logger: log,
		OnShadow: func(r *gate.Request, would gate.Decision) {
			log.Info("the policy would have denied this", "action", r.Action, "name", r.Exposed, "caller", r.Identity, "reason", would.Reason)
		},
	})
}
