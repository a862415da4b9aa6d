package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// call is the request path: everything that a client may run passes it, top to
// bottom. The order is a security property. What does not exist and what the
// caller may not view give the same bytes; nothing is charged before the gate
// and the arguments have passed; nothing is delivered before it is charged;
// and however it ends, one audit entry is closed.
func (g *Gateway) call(ctx context.Context, x *Exchange, kind mcp.Capability, name string) (answer reply) {
	g.waitCall(ctx, x, kind, name)
	rec := g.newRecord(x, kind, name)
	defer func() { rec.close(&answer, recover()) }()
	refuse := func(err error) reply { return g.refuse(x, rec.refused(err)) }

	if err := g.opts.Auditor.Healthy(); err != nil {
		return refuse(refusal.AuditDown(err))
	}
	snap, route, from, err := g.find(ctx, x, kind, name)
	if err != nil {
		return g.unlisted(ctx, x, rec, kind, name, route, from, err)
	}
	if route == nil {
		return refuse(g.unknownTo(x, kind, name))
	}
	rec.routed(route)
	rec.note(route)
	if err := g.decide(ctx, x, route, rec); err != nil {
		return refuse(err)
	}
	if err := route.to.peek(x, route, nil); err != nil {
		return refuse(err)
	}
	call, err := g.prepare(x, route)
	if err != nil {
		return refuse(err)
	}
	ctx, done, err := g.flights.begin(ctx, x, route, rec)
	if err != nil {
		return refuse(err)
	}
	defer done()
	if err := g.examine(ctx, x, route, rec, call); err != nil {
		return refuse(err)
	}
	rec.passed("arguments")
	retry, err := g.rounds.recognise(x, route, rec, call)
	if err != nil {
		return refuse(err)
	}
	if err := g.pace(ctx, x, route, rec, retry); err != nil {
		return refuse(err)
	}
	rec.passed("rates")
	if err := route.to.peek(x, route, retry); err != nil {
		return refuse(err)
	}
	question, err := g.approve(ctx, x, route, rec, call, retry)
	if err != nil {
		return refuse(err)
	}
	if question != nil {
		rec.step("approval", verdictAsk, "", "")
		return *question
	}
	if err := route.to.slots.Acquire(ctx, route.Server, x.Identity.Key()); err != nil {
		return refuse(err)
	}
	defer route.to.slots.Release(x.Identity.Key())
	if err := g.decideAgain(ctx, x, route, rec, call); err != nil {
		return refuse(err)
	}
	giveBack, err := route.to.admit(call, retry)
	if err != nil {
		return refuse(err)
	}
	defer giveBack()
	if rec.entry.Breaker = breakerState(call); rec.entry.Breaker != "" {
		rec.step("breaker", verdictPass, rec.entry.Breaker, "")
	}
	if err := g.rounds.admit(ctx, retry, rec); err != nil {
		return refuse(err)
	}
	if err := rec.consent.use(ctx); err != nil {
		return refuse(err)
	}
	if ctx, err = rec.charge(ctx, snap, route, retry.charged()); err != nil {
		return refuse(retry.ended(err))
	}
	rec.passed("budget")
	if err := g.decideAgain(ctx, x, route, rec, call); err != nil {
		return refuse(retry.ended(rec.notMade(err)))
	}
	if err := rec.begin(); err != nil {
		return refuse(retry.ended(rec.notMade(err)))
	}
	call.Params = rec.tell(call.Params)
	got, err := g.carry(ctx, x, route, rec, call, retry)
	if err := rec.carried(&got, err); err != nil {
		return g.unserved(x, route, rec, call, retry, err)
	}
	return rec.warned(g.deliver(x, route, rec, call, got))
}

// decisionAge is how old a decision of the gate may be when it is acted on.
const decisionAge = time.Second

// decide asks the gate about a call, and notes in its record when that was and
// under which conditions it is allowed.
func (g *Gateway) decide(ctx context.Context, x *Exchange, r *Route, rec *record) (err error) {
	rec.demands, err = g.permitOr(ctx, x, r, r.argumentsOf(x), rec, func(gate.Decision) error { return g.unknownTo(x, r.Kind, r.Exposed) })
	rec.decided = time.Now()
	return err
}

// permit asks whether the caller may view something, has the scopes for it, and
// may call it, in this order. It returns what people are to be asked before, or
// the refusal.
func (g *Gateway) permit(ctx context.Context, x *Exchange, r *Route) ([]gate.Demand, error) {
	return g.permitOr(ctx, x, r, r.argumentsOf(x), nil, func(gate.Decision) error { return g.unknownTo(x, r.Kind, r.Exposed) })
}

// permitOr is permit of a call with other arguments than those of the request,
// or with another answer for what may not be viewed, and for that of which this
// cannot be decided. What is decided is noted in the record, if there is one.
func (g *Gateway) permitOr(ctx context.Context, x *Exchange, r *Route, args []byte, rec *record, hidden func(gate.Decision) error) ([]gate.Demand, error) {
	snap := g.snapshot.Load()
	var d gate.Decision
	for _, action := range [...]gate.Action{gate.View, gate.Call} {
		var hears gate.Listener // a nil record would be no nil interface
		if rec != nil && action == gate.Call {
			hears = rec
		}
		d = snap.decide(ctx, action, x, r, args, hears)
		if rec != nil && action == gate.View {
			rec.viewed(d)
		}
		switch {
		case action == gate.View && d.Undecidable():
			return nil, hidden(d)
		case d.Err != nil:
			return nil, refusal.Undecided(d)
		case d.Effect == gate.Allow && action == gate.View:
			if err := snap.scoped(x.Identity, r); err != nil {
				return nil, err
			}
		case d.Effect == gate.Allow:
		case action == gate.View:
			return nil, hidden(d)
		default:
			return nil, refusal.Denied(d)
		}
	}
	return d.Demands, nil
}

// decide asks the gate about a route. The arguments count for a call.
func (s *Snapshot) decide(ctx context.Context, action gate.Action, x *Exchange, r *Route, args []byte, hears gate.Listener) gate.Decision {
	question := r.question(action, x.Identity, x.Scope)
	if action == gate.Call {
		question.Args = args
	}
	return s.Chain.DecideFor(ctx, &question, hears)
}

// errCancelled is the cause of a context whose request the client cancelled.
var errCancelled = errors.New("cancelled by the client")
