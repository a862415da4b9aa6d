package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// Why explains what one caller may do with one capability. It asks no upstream server
// and no people, and counts and charges nothing.
type Why struct {
	Kind             mcp.Kind
	Server, Original string
	Exposed          string
	CapabilityID     string
	View, Call       Verdict
}

// Verdict is one decision with what each step decided: the phases of the gate, and for
// a call the steps after it.
type Verdict struct {
	gate.Decision
	// Asks means that a call is allowed, but people are asked first.
	Asks  bool
	Steps []Step
}

// Step is what one step of a decision said.
type Step struct {
	gate.Explanation
	Asks bool // it asks people, and later steps were not evaluated
}

// Why explains what a caller may do at this moment with an exposed name, in the scope
// of an endpoint. If nothing has the name while servers start for the first time, it
// waits for them like a first list. args are the arguments of the call, a validated
// JSON object. Without them the explanation covers what holds for any arguments. It
// returns nil when nothing has the name.
func (g *Gateway) Why(ctx context.Context, id *gate.Identity, scope Scope, name string, args []byte) *Why {
	snap, r := g.named(id, name, scope)
	if r == nil { // it may belong to a server that is still starting
		g.first.For(ctx, scope.Server, false)
		snap, r = g.named(id, name, scope)
	}
	if r == nil {
		return nil
	}
	w := &Why{Kind: r.Kind, Server: r.Server, Original: r.Original, Exposed: r.Exposed, CapabilityID: r.CapabilityID}
	w.View = snap.explain(ctx, gate.View, id, scope, r, nil)
	w.Call = w.View // what may not be viewed cannot be called either
	if w.View.Effect == gate.Allow {
		w.Call = g.explainCall(ctx, snap, id, scope, r, args)
	}
	return w
}

// named finds an exposed name of any kind. The route is nil when nothing has it.
func (g *Gateway) named(id *gate.Identity, name string, scope Scope) (*Snapshot, *Route) {
	snap := g.snapshot.Load()
	for _, kind := range mcp.Kinds {
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

// explainCall explains a call of something that may be viewed, in the [order] of a
// call: the audit log, the scopes, the gate, and the later steps.
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
		if final, fault = r.arguments(given); fault != nil {
			s := Step{Explanation: gate.Explanation{Decision: gate.Decision{Phase: "arguments", Reason: fault.Message}}}
			return Verdict{Decision: s.Decision, Steps: append(before, s)}
		}
	}
	var decided []byte // as in [Route.argumentsOf]
	if r.Kind == mcp.Tool || r.Kind == mcp.Prompt {
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

// Names returns all exposed names, sorted, for writers of rules.
func (g *Gateway) Names() []string { return g.snapshot.Load().names() }

func (c *Catalog) names() []string {
	var names []string
	for _, kind := range mcp.Kinds {
		for _, r := range c.lists[kind].entries {
			names = append(names, r.Exposed)
		}
	}
	return names
}

// dryRun evaluates the steps after the gate in the [order] of a call. It neither
// counts, charges nor asks people.
type dryRun struct {
	g     *Gateway
	snap  *Snapshot
	id    *gate.Identity
	scope Scope
	r     *Route
	// args are the final arguments, given those of the caller, nil when the arguments
	// are not known.
	args, given []byte
	demands     []gate.Demand
}

// errAsksPeople is the result of a step that asks people.
var errAsksPeople = errors.New("people are asked")

// dryStep is a step of the [order] that is explained, and the phase name it is shown
// under.
type dryStep struct {
	of, phase string
	do        func(context.Context) (said string, there bool, err error)
}

// order returns the steps after the gate.
func (d *dryRun) order() []dryStep {
	return []dryStep{
		{"breaker", "breaker", d.breaker},
		{"arguments", "governance", d.examine},
		{"interceptors", refusal.PhaseInterceptors, d.intercept},
		{"rates", "rate", d.pace},
		{"approval", "approval", d.approve},
		{"budget", "budget", d.charge},
	}
}

// steps adds the steps to a verdict that allows the call, up to the first that refuses. What
// comes after an open breaker is there as well: the breaker refuses this moment, and they say
// whether the call will be allowed once it has closed.
func (d *dryRun) steps(ctx context.Context, v *Verdict) {
	for _, step := range d.order() {
		said, there, err := step.do(ctx)
		if !there && err == nil {
			continue
		}
		s := Step{Explanation: gate.Explanation{Decision: gate.Decision{Effect: gate.Abstain, Phase: step.phase, Reason: said}}}
		switch refused, is := errors.AsType[*refusal.Error](classify(err)); {
		case err == nil:
		case errors.Is(err, errAsksPeople):
			s.Asks = true
			if v.Effect == gate.Allow {
				v.Asks, v.Reason = true, said
			}
		case is:
			s.deny(refused)
		default: // a protocol error, such as arguments of the wrong kind
			s.Decision = gate.Decision{Phase: step.phase, Reason: err.Error()}
		}
		v.Steps = append(v.Steps, s)
		if err != nil && !s.Asks && v.Effect == gate.Allow {
			v.Decision = s.Decision
		}
		if err != nil && step.of != "breaker" {
			return
		}
	}
}

// deny marks the step as one that refuses.
func (s *Step) deny(by *refusal.Error) {
	s.Decision = gate.Decision{Phase: by.Phase, Reason: strings.TrimSuffix(by.Text, ".")}
	if by.Protocol {
		s.Err = by.Err
	}
	if by.Rule != (gate.Rule{}) {
		s.Rules = []gate.Rule{by.Rule}
	}
	s.Change = by.Change
}

func (d *dryRun) breaker(context.Context) (said string, there bool, err error) {
	g, guarded := d.r.to.backend.(*guard.Guard)
	if !guarded {
		return "", false, nil
	}
	return "", true, g.Peek(d.r.Kind, d.r.Original)
}

// examine checks the schema, the rules and the mode; without arguments, only what holds
// for any arguments.
func (d *dryRun) examine(ctx context.Context) (said string, there bool, err error) {
	checker := d.snap.arguments
	if checker == nil {
		return "", false, d.fit(ctx)
	}
	question := d.r.question(gate.Call, d.id, d.scope)
	question.Args = d.args
	demands, err := checker.CheckArguments(ctx, PendingCall{
		Request: &question, Schema: d.r.input, Listed: d.r.item, Tool: d.r.Kind == mcp.Tool && d.given != nil, Native: d.r.to.mount.Native,
	})
	if err != nil {
		return "", true, err
	}
	if err := d.fit(ctx); err != nil {
		return "", true, err
	}
	d.demands = append(d.demands, demands...)
	if d.given == nil && d.r.Kind == mcp.Tool {
		said = "whatever the arguments are; their rules count when they are given"
	}
	return said, true, nil
}

// fit asks the backend of a tool about the arguments, where there are any.
func (d *dryRun) fit(ctx context.Context) error {
	if d.given == nil || d.r.Kind != mcp.Tool {
		return nil
	}
	return d.r.checkFit(ctx, mcp.MethodToolsCall, d.args)
}

// intercept names the interceptors that a call would meet. They are not asked.
func (d *dryRun) intercept(context.Context) (said string, there bool, err error) {
	var parts []string
	for _, phase := range [...]intercept.Phase{intercept.Before, intercept.After} {
		var names []string
		for _, e := range d.snap.interceptors.Met(phase, d.r.Exposed) {
			names = append(names, e.Name)
		}
		if names != nil {
			parts = append(parts, string(phase)+" the call "+strings.Join(names, ", "))
		}
	}
	if parts == nil {
		return "", false, nil
	}
	return "not asked now; they are asked " + strings.Join(parts, "; "), true, nil
}

func (d *dryRun) pace(ctx context.Context) (said string, there bool, err error) {
	if most := d.g.loops.Most(); most > 0 && d.r.Kind == mcp.Tool && d.given != nil {
		if wait := d.g.loops.Look(ctx, limit.Call{Principal: d.id.Key(), Server: d.r.Server, Tool: d.r.Original, Args: mcp.Hash(d.given)}); wait > 0 {
			return "", true, refusal.Repeated(d.r.Exposed, most, wait)
		}
	}
	if d.snap.rates == nil {
		return "", false, nil
	}
	return "", true, d.snap.rates.Look(ctx, d.r.rateCall(d.id))
}

// approve reports whether people are asked, or their decision on the call with its
// arguments.
func (d *dryRun) approve(ctx context.Context) (said string, there bool, err error) {
	if len(d.demands) == 0 {
		return "", false, nil
	}
	if d.snap.approver == nil {
		return "", true, refusal.Unapproved("This call needs an approval, but nobody is configured who could give it.")
	}
	var why []string
	for _, demand := range d.demands {
		if demand.Reason != "" {
			why = append(why, strings.TrimSuffix(demand.Reason, "."))
		}
	}
	asks := "an approval is asked for: " + strings.Join(why, "; ")
	args := d.args
	if d.r.Kind == mcp.Resource {
		args = mcp.Quote(d.r.Exposed)
	} else if d.given == nil {
		return asks, true, errAsksPeople
	}
	question := d.r.asked(d.id, args, d.demands)
	switch found, ok, err := d.snap.approver.Find(ctx, &question); {
	case err != nil:
		return "", true, approvalUnavailable(err)
	case !ok:
		return asks, true, errAsksPeople
	case found.State == gate.ApprovalGranted:
		return "granted (" + found.ID + ")", true, nil
	case found.State == gate.ApprovalPending:
		return "waits for an answer (" + found.ID + "): " + strings.Join(why, "; "), true, errAsksPeople
	default:
		return "", true, refusal.NotApproved(found)
	}
}

func (d *dryRun) charge(ctx context.Context) (said string, there bool, err error) {
	if !d.snap.Limiter.Charges() {
		return "", false, nil
	}
	standings, err := d.snap.standings(ctx, d.id, d.scope, d.r)
	var parts []string
	for _, s := range standings {
		if s.Limit != budget.NoLimit {
			parts = append(parts, fmt.Sprintf("%s: %d of %d %s are used until %s", s.Budget, s.Used, s.Limit, s.Unit, s.ResetAt.UTC().Format(time.RFC3339)))
		}
	}
	return strings.Join(parts, "; "), true, err
}

// standings returns the state of the budgets for a call, and the refusal that it would
// get now. Nothing is charged.
func (s *Snapshot) standings(ctx context.Context, id *gate.Identity, scope Scope, r *Route) ([]budget.Standing, error) {
	if !s.Limiter.Charges() {
		return nil, nil
	}
	u := budget.Usage{
		CallID: "none", Tool: r.Kind == mcp.Tool,
		Issuer: id.Issuer, Tenant: id.Tenant, Subject: id.Subject, Persona: id.Persona, Plan: id.Plan,
		Name: r.Exposed, Unsuffixed: r.Unsuffixed, Server: r.Server, Original: r.Original, Cost: r.cost(),
		Bytes: int64(r.to.mount.maxResult()), Time: r.hard(),
	}
	if s.class != nil {
		u.Class = func() string { return s.class(r.question(gate.Call, id, scope), r.item) }
	}
	return s.Limiter.Look(ctx, u)
}
