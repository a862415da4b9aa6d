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
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// dryRun goes through what follows the gate in the [order] of a call, and neither
// counts, charges nor asks anything.
type dryRun struct {
	g     *Gateway
	snap  *Snapshot
	id    *gate.Identity
	scope Scope
	r     *Route
	// args are the final ones, as they are delivered; given what the caller gives,
	// nil for a call whose arguments are not known.
	args, given []byte
	demands     []gate.Demand
}

// errAsks is the answer of a step that puts a question to people.
var errAsks = errors.New("people are asked")

// dryStep is a step of the [order] that is explained: which one, and under which name
// of a phase.
type dryStep struct {
	of, phase string
	do        func(context.Context) (said string, there bool, err error)
}

// order is what follows the gate.
func (d *dryRun) order() []dryStep {
	return []dryStep{
		{"breaker", "breaker", d.breaker},
		{"arguments", "governance", d.examine},
		{"rates", "rate", d.pace},
		{"approval", "approval", d.approve},
		{"budget", "budget", d.charge},
	}
}

// steps adds what each step says to a verdict that allows the call, up to the first
// that does not let it pass.
func (d *dryRun) steps(ctx context.Context, v *Verdict) {
	for _, step := range d.order() {
		said, there, err := step.do(ctx)
		if !there && err == nil {
			continue
		}
		s := Step{Explanation: gate.Explanation{Decision: gate.Decision{Effect: gate.Abstain, Phase: step.phase, Reason: said}}}
		switch refused, is := errors.AsType[*refusal.Error](classify(err)); {
		case err == nil:
		case errors.Is(err, errAsks):
			s.Asks, v.Asks, v.Reason = true, true, said
		case is:
			s.deny(refused)
		default: // a fault of the protocol, such as arguments of the wrong kind
			s.Decision = gate.Decision{Phase: step.phase, Reason: err.Error()}
		}
		v.Steps = append(v.Steps, s)
		if err != nil && !s.Asks {
			v.Decision = s.Decision
		}
		if err != nil {
			return
		}
	}
}

// deny makes the step one that refuses.
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

// examine asks for the schema, the rules and the mode; without arguments, for what
// holds whatever they are.
func (d *dryRun) examine(ctx context.Context) (said string, there bool, err error) {
	checker := d.snap.arguments
	if checker == nil {
		return "", false, nil
	}
	question := d.r.question(gate.Call, d.id, d.scope)
	question.Args = d.args
	demands, err := checker.CheckArguments(ctx, PendingCall{
		Request: &question, Schema: d.r.input, Listed: d.r.item, Tool: d.r.Kind == mcp.Tool && d.given != nil, Native: d.r.to.mount.Native,
	})
	if err != nil {
		return "", true, err
	}
	d.demands = append(d.demands, demands...)
	if d.given == nil && d.r.Kind == mcp.Tool {
		said = "whatever the arguments are; their rules count when they are given"
	}
	return said, true, nil
}

func (d *dryRun) pace(ctx context.Context) (said string, there bool, err error) {
	if most := d.g.loops.Most(); most > 0 && d.r.Kind == mcp.Tool && d.given != nil {
		if wait := d.g.loops.Look(limit.Call{Principal: d.id.Key(), Server: d.r.Server, Tool: d.r.Original, Args: mcp.Hash(d.given)}); wait > 0 {
			return "", true, refusal.Repeated(d.r.Exposed, most, wait)
		}
	}
	if d.snap.rates == nil {
		return "", false, nil
	}
	return "", true, d.snap.rates.Look(ctx, d.r.rated(d.id))
}

// approve says whether people are asked, or what they have said already of the call
// with its arguments.
func (d *dryRun) approve(ctx context.Context) (said string, there bool, err error) {
	if len(d.demands) == 0 {
		return "", false, nil
	}
	if d.snap.approver == nil {
		return "", true, refusal.Unapproved("This call needs an approval, and there is nobody who could give it.")
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
		return asks, true, errAsks
	}
	question := d.r.asked(d.id, args, d.demands)
	switch found, ok, err := d.snap.approver.Find(ctx, &question); {
	case err != nil:
		return "", true, approvalDown(err)
	case !ok:
		return asks, true, errAsks
	case found.State == gate.ApprovalGranted:
		return "granted (" + found.ID + ")", true, nil
	case found.State == gate.ApprovalPending:
		return "waits for an answer (" + found.ID + "): " + strings.Join(why, "; "), true, errAsks
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

// standings says how the budgets of a call stand, and returns the refusal that it
// would have now. Nothing is charged.
func (s *Snapshot) standings(ctx context.Context, id *gate.Identity, scope Scope, r *Route) ([]budget.Standing, error) {
	if !s.Limiter.Charges() {
		return nil, nil
	}
	u := budget.Usage{
		CallID: "none", Tool: r.Kind == mcp.Tool,
		Issuer: id.Issuer, Tenant: id.Tenant, Subject: id.Subject, Persona: id.Persona, Plan: id.Plan,
		Name: r.Exposed, Plain: r.Plain, Server: r.Server, Original: r.Original, Cost: r.cost(),
		Bytes: int64(r.to.mount.maxResult()), Time: r.hard(),
	}
	if s.class != nil {
		u.Class = func() string { return s.class(r.question(gate.Call, id, scope), r.item) }
	}
	return s.Limiter.Look(ctx, u)
}
