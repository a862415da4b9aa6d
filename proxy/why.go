package proxy

import (
	"context"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// Why is what one caller may do with one capability, and why. No upstream server is
// asked for it, and nothing is counted, charged or asked of people.
type Why struct {
	Kind             mcp.Capability
	Server, Original string
	Exposed          string
	CapabilityID     string
	View, Call       Verdict
}

// Verdict is one decision with what each step said on the way: the phases of the
// gate, and for a call what comes after it.
type Verdict struct {
	gate.Decision
	// Asks tells of a call that is allowed, that people are asked first.
	Asks  bool
	Steps []Step
}

// Step is what one step of a decision said.
type Step struct {
	gate.Explanation
	Asks bool // it puts a question to people, and nothing after it was looked at
}

// Why explains what a caller may do with what has an exposed name, in the scope
// of an endpoint, at this moment. Where nothing has that name and servers are starting
// for the first time, it waits for them as a first list does. args are the arguments of the call, a validated JSON
// object; without them it is explained as far as it holds whatever they are. It
// returns nil when nothing has the name.
func (g *Gateway) Why(ctx context.Context, id *gate.Identity, scope Scope, name string, args []byte) *Why {
	snap, r := g.named(id, name, scope)
	if r == nil { // it may be of a server that is still starting
		g.first.wait(ctx, "", scope, false)
		snap, r = g.named(id, name, scope)
	}
	if r == nil {
		return nil
	}
	w := &Why{Kind: r.Kind, Server: r.Server, Original: r.Original, Exposed: r.Exposed, CapabilityID: r.CapabilityID}
	w.View = snap.explain(ctx, gate.View, id, scope, r, nil)
	w.Call = w.View // what may not be viewed does not exist for a call either
	if w.View.Effect == gate.Allow {
		w.Call = g.explainCall(ctx, snap, id, scope, r, args)
	}
	return w
}

// named finds what has an exposed name, whatever its kind is. The route is nil when
// nothing has it.
func (g *Gateway) named(id *gate.Identity, name string, scope Scope) (*Snapshot, *Route) {
	snap := g.snapshot.Load()
	for _, kind := range mcp.Capabilities {
		if r := snap.resolve(id, kind, name, scope); r != nil {
			return snap, r
		}
	}
	return snap, nil
}

func (s *Snapshot) explain(ctx context.Context, action gate.Action, id *gate.Identity, scope Scope, r *Route, args []byte) Verdict {
	question := r.question(action, id, scope)
	question.Args = args
	var v Verdict
	decision, phases := s.Chain.Explain(ctx, &question)
	v.Decision = decision
	for i := range phases {
		v.Steps = append(v.Steps, Step{Explanation: phases[i]})
	}
	return v
}

// explainCall explains a call of what may be viewed, in the [order] of one:
// by the audit log, the scopes that it needs, the gate, and what comes after it.
func (g *Gateway) explainCall(ctx context.Context, snap *Snapshot, id *gate.Identity, scope Scope, r *Route, given []byte) Verdict {
	var before []Step
	if err := g.opts.Auditor.Healthy(); err != nil {
		s := Step{}
		s.deny(refusal.AuditDown(err))
		return Verdict{Decision: s.Decision, Steps: []Step{s}}
	}
	if snap.scopes != nil {
		s := Step{Explanation: gate.Explanation{Decision: gate.Decision{Effect: gate.Abstain, Phase: refusal.PhaseScopes}}}
		if err := snap.scopes.Check(id, r.names()); err != nil {
			s.Decision = gate.Decision{Phase: refusal.PhaseScopes, Reason: err.Error()}
			s.Change = &gate.Change{Text: "ask for a token with the missing scope", Where: "auth.scopes.required", Value: r.Exposed}
			return Verdict{Decision: s.Decision, Steps: []Step{s}}
		}
		before = append(before, s)
	}
	final := given
	if r.Kind == mcp.Tool && given != nil {
		var fault *mcp.Error
		if final, fault = r.shape.arguments(given); fault != nil {
			s := Step{Explanation: gate.Explanation{Decision: gate.Decision{Phase: "arguments", Reason: fault.Message}}}
			return Verdict{Decision: s.Decision, Steps: append(before, s)}
		}
	}
	var decided []byte // as in argumentsOf
	if r.Kind == mcp.Tool {
		decided = final
	}
	v := snap.explain(ctx, gate.Call, id, scope, r, decided)
	v.Steps = append(before, v.Steps...)
	if v.Effect == gate.Allow {
		run := dryRun{g: g, snap: snap, id: id, scope: scope, r: r, args: final, given: given, demands: v.Demands}
		run.steps(ctx, &v)
	}
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
