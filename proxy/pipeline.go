package proxy

import (
	"context"
	"errors"

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
	if d := snap.decide(ctx, gate.View, x, route); d.Err != nil {
		return refuse(unavailable(d))
	} else if d.Effect != gate.Allow {
		return refuse(unknown(x, kind, name))
	}
	if d := snap.decide(ctx, gate.Call, x, route); d.Err != nil {
		return refuse(unavailable(d))
	} else if d.Effect != gate.Allow {
		return refuse(denied(d))
	}
	call, err := g.prepare(x, route)
	if err != nil {
		return refuse(err)
	}
	retry, err := g.rounds.admit(x, route, rec, call)
	if err != nil {
		return refuse(err)
	}
	if err := route.to.slots.take(ctx, route.Server, x.Identity.Key()); err != nil {
		return refuse(err)
	}
	defer route.to.slots.give()
	if !retry { // a retry is part of a call that was charged
		refund, err := snap.Limiter.Charge(ctx, rec.usage())
		if err != nil {
			return refuse(err)
		}
		rec.refund = refund
	}
	got, err := route.to.backend.Call(ctx, call)
	rec.settle(err)
	if err != nil {
		return refuse(err)
	}
	return g.deliver(x, route, rec, call, got)
}

// decide asks the gate about a route.
func (s *Snapshot) decide(ctx context.Context, action gate.Action, x *Exchange, r *Route) gate.Decision {
	return s.Chain.Decide(ctx, &gate.Request{
		Action: action, Kind: r.Kind, Server: r.Server, Original: r.Original,
		Exposed: r.Exposed, CapabilityID: r.CapabilityID, Identity: x.Identity,
	})
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
