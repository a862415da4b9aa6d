package proxy

import (
	"context"
	"errors"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Why is what the gate says of one capability to one caller, and why. No
// upstream server is asked for it.
type Why struct {
	Kind             mcp.Capability
	Server, Original string
	Exposed          string
	CapabilityID     string
	View, Call       Verdict
}

// Verdict is one decision of the gate with what each phase said on the way.
type Verdict struct {
	gate.Decision
	Steps []gate.Explanation
}

// Why explains what a caller may do with what has an exposed name, in the scope
// of an endpoint. A call is explained without arguments. It returns nil when
// nothing has the name.
func (g *Gateway) Why(ctx context.Context, id *gate.Identity, scope Scope, name string) *Why {
	snap := g.snapshot.Load()
	for _, kind := range mcp.Capabilities {
		r := snap.resolve(id, kind, name, scope)
		if r == nil {
			continue
		}
		w := &Why{Kind: kind, Server: r.Server, Original: r.Original, Exposed: r.Exposed, CapabilityID: r.CapabilityID}
		w.View = snap.explain(ctx, gate.View, id, scope, r)
		if w.View.Effect != gate.Allow {
			w.Call = w.View // what may not be viewed does not exist for a call either
			return w
		}
		if lacks := snap.scoped(id, r); lacks != nil {
			w.Call = unscoped(lacks)
			return w
		}
		w.Call = snap.explain(ctx, gate.Call, id, scope, r)
		return w
	}
	return nil
}

// unscoped is the verdict about a call for which a token lacks scopes. The gate is
// not asked about it.
func unscoped(lacks error) Verdict {
	refusal, reason := (*Refusal)(nil), lacks.Error()
	if errors.As(lacks, &refusal) && refusal.Err != nil {
		reason = refusal.Err.Error()
	}
	d := gate.Decision{Effect: gate.Deny, Phase: phaseScopes, Reason: reason}
	return Verdict{Decision: d, Steps: []gate.Explanation{{
		Decision: d, Change: &gate.Change{Text: "a token with more scopes", Where: "auth.scopes.required"},
	}}}
}

func (s *Snapshot) explain(ctx context.Context, action gate.Action, id *gate.Identity, scope Scope, r *Route) Verdict {
	question := r.question(action, id, scope)
	var v Verdict
	v.Decision, v.Steps = s.Chain.Explain(ctx, &question)
	return v
}

// Names returns the exposed names of everything, sorted, for those who name it
// in rules.
func (g *Gateway) Names() []string { return g.snapshot.Load().names() }

func (c *Catalog) names() []string {
	var names []string
	for _, kind := range mcp.Capabilities {
		for _, r := range c.lists[kind].entries {
			names = append(names, r.Exposed)
		}
	}
	return names
}
