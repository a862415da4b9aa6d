package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// step is one step of the order. A step that returns an error refuses the call, and
// one that sets its answer ends it.
type step struct {
	name string
	do   func(*call) error
}

// order is the request path: everything that a client may run passes it, top to
// bottom. The order is a security property. What does not exist and what the caller
// may not view give the same bytes; nothing is charged before the gate and the
// arguments have passed; nothing is delivered before it is charged; and however a call
// ends, one audit entry is closed. A [plan] says which steps a kind of request leaves
// out, and why.
var order = [...]step{
	{"request", (*call).wellFormed},         // is the request one of its method
	{"audit", (*call).audited},              // can its entry be kept
	{"find", (*call).find},                  // what is it about
	{"gate", (*call).decide},                // may the caller view it and call it
	{"breaker", (*call).checkBreaker},       // is its server left alone at the moment
	{"prepare", (*call).prepare},            // what is its server sent
	{"running", (*call).registerRunning},    // from here on a change of the mode ends it
	{"arguments", (*call).checkArguments},   // do they fit the schema, the rules and the mode
	{"round", (*call).findRound},            // does it go on with an earlier request
	{"rates", (*call).checkRates},           // does it come too often
	{"breaker again", (*call).checkBreaker}, // that of a call which goes on
	{"approval", (*call).approve},           // have the people approved who are to be asked
	{"concurrency", (*call).acquire},        // is there a place for it
	{"gate again", (*call).decideAgain},     // is it allowed still, after it has waited
	{"breaker pass", (*call).passBreaker},   // may it try its server
	{"round once", (*call).useRound},        // is it the only one that goes on with that request
	{"grant", (*call).useGrant},             // is it the only one that uses that approval
	{"budget", (*call).charge},              // is it paid for
	{"gate last", (*call).decideAgain},      // is it allowed still, after it was charged
	{"begin", (*call).begin},                // the audit log knows of it before its server does
	{"exchange", (*call).exchange},          // the request, and its answer
}

// entryFor passes a call through the order and returns its answer.
func (c *call) serve(ctx context.Context) (answer response) {
	defer func() { c.close(&answer, recover()) }()
	if err := c.pass(ctx); err != nil {
		return c.refuse(err)
	}
	return *c.answer
}

// pass is serve of a call that somebody else closes. The error is why it is refused.
func (c *call) pass(ctx context.Context) error {
	c.ctx = ctx
	defer c.release()
	for i := range order {
		if c.plan.omitted[order[i].name] != "" {
			continue
		}
		if err := order[i].do(c); err != nil {
			return c.stopped(err)
		}
		if c.answer != nil {
			return nil
		}
	}
	return nil
}

// call answers a request for what has a name.
func (g *Gateway) call(ctx context.Context, x *Exchange, kind mcp.Kind, name string) response {
	g.waitCall(ctx, x, kind, name)
	return g.newRequest(x, &planCall, kind, name).serve(ctx)
}

// maxDecisionAge is how old a decision of the gate may be when it is acted on.
const maxDecisionAge = time.Second

// decide asks the gate about a call, and notes when that was and under which
// conditions it is allowed.
func (c *call) decide() (err error) {
	var args []byte
	if !c.plan.unlisted {
		args = c.route.argumentsOf(c.x)
	}
	c.demands, err = c.g.permit(c.ctx, c.x, c.route, args, c.rec, func(d gate.Decision) error { return c.plan.hidden(c, d) })
	c.decided = time.Now()
	return err
}

// permit asks whether the caller may view something, has the scopes for it, and
// may call it, in this order. It returns what people are to be asked before, or
// the refusal: that of hidden where it may not be viewed, or where this cannot be
// decided. Decisions are those of the newest gate. What is decided is noted in the
// record, if there is one.
func (g *Gateway) permit(ctx context.Context, x *Exchange, r *Route, args []byte, rec *record, hidden func(gate.Decision) error) ([]gate.Demand, error) {
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
