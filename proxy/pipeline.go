package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// call is the request path: everything that a client may run passes it, top to
// bottom. The order is a security property. What does not exist and what the
// caller may not view give the same bytes; nothing is charged before the gate
// and the arguments have passed; nothing is delivered before it is charged;
// and however it ends, one audit entry is closed.
func (g *Gateway) call(ctx context.Context, x *Exchange, kind mcp.Capability, name string) (answer reply) {
	g.waitFirst(ctx)
	snap, rec := g.snapshot.Load(), g.newRecord(x, kind, name)
	defer func() { rec.close(&answer, recover()) }()
	refuse := func(err error) reply { return g.refuse(x, rec.refused(err)) }

	if err := g.opts.Auditor.Healthy(); err != nil {
		return refuse(auditDown(err))
	}
	route := snap.Catalog(x.Identity).resolve(kind, name, x.Scope)
	if route == nil {
		return refuse(unknown(x, kind, name))
	}
	rec.routed(route)
	if err := g.permit(ctx, x, route); err != nil {
		return refuse(err)
	}
	call, err := g.prepare(x, route)
	if err != nil {
		return refuse(err)
	}
	ctx, done := g.flights.begin(ctx, x, route, rec)
	defer done()
	if err := snap.examine(ctx, x, route, call, false); err != nil {
		return refuse(err)
	}
	waited, err := route.to.slots.take(ctx, route.Server, x.Identity.Key())
	if err != nil {
		return refuse(err)
	}
	defer route.to.slots.give()
	if err := g.still(ctx, x, route, call, waited); err != nil {
		return refuse(err)
	}
	retry, err := g.rounds.admit(ctx, x, route, rec, call)
	if err != nil {
		return refuse(err)
	}
	if retry == nil { // a retry is part of a call that was charged
		refund, err := snap.Limiter.Charge(ctx, rec.usage())
		if err != nil {
			return refuse(err)
		}
		rec.refund = refund
	}
	got, err := g.carry(ctx, x, route, rec, call, retry)
	rec.settle(err)
	if err != nil {
		return refuse(err)
	}
	return g.deliver(x, route, rec, call, got)
}

// decisionAge is how old a decision of the gate may be when it is acted on.
const decisionAge = time.Second

// still decides again about a call that has waited: whether it may be called,
// when that is no longer certain, and whether it may be in the mode of now.
func (g *Gateway) still(ctx context.Context, x *Exchange, r *Route, call *mcp.Call, waited time.Duration) error {
	if waited == 0 {
		return nil
	}
	if waited > decisionAge {
		if err := g.permit(ctx, x, r); err != nil {
			return err
		}
	}
	return g.snapshot.Load().examine(ctx, x, r, call, true)
}

// permit asks the gate whether the caller may view something, and then whether
// it may call it. It returns the refusal.
func (g *Gateway) permit(ctx context.Context, x *Exchange, r *Route) error {
	return g.permitOr(ctx, x, r, func() error { return unknown(x, r.Kind, r.Exposed) })
}

// permitOr is permit with another answer for what may not be viewed.
func (g *Gateway) permitOr(ctx context.Context, x *Exchange, r *Route, hidden func() error) error {
	snap := g.snapshot.Load()
	for _, action := range [...]gate.Action{gate.View, gate.Call} {
		switch d := snap.decide(ctx, action, x, r); {
		case d.Err != nil:
			return unavailable(d)
		case d.Effect == gate.Allow:
		case action == gate.View:
			return hidden()
		default:
			return denied(d)
		}
	}
	return nil
}

// decide asks the gate about a route.
func (s *Snapshot) decide(ctx context.Context, action gate.Action, x *Exchange, r *Route) gate.Decision {
	question := r.question(action, x.Identity, x.Scope)
	if action == gate.Call && r.Kind == mcp.Tool {
		question.Args = r.finalArguments(&x.Message)
	}
	return s.Chain.Decide(ctx, &question)
}

// auditDown is the refusal of a gateway that cannot keep what it does.
func auditDown(err error) *Refusal {
	return &Refusal{
		Kind: "audit_unavailable", Code: codeUnavailable, Phase: "audit", Protocol: true, Err: err,
		Text: "The gateway cannot write its audit log and therefore runs nothing.",
	}
}

// errCancelled is the cause of a context whose request the client cancelled.
var errCancelled = errors.New("cancelled by the client")
