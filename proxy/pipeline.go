package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// step is one step of the order. A step refuses the call by an error, and ends it by
// setting its answer.
type step struct {
	name string
	do   func(*call) error
}

// order is the request path of every call, from top to bottom. The order is a security
// property: what does not exist and what the caller may not view have the same
// response; nothing is charged before the gate and the arguments have passed; nothing
// is delivered before it is charged; and one audit entry is closed however a call ends.
// A [plan] says which steps a kind of request leaves out, and why.
var order = [...]step{
	{"request", (*call).wellFormed},         // is the request well-formed
	{"audit", (*call).audited},              // can its audit entry be recorded
	{"find", (*call).find},                  // what is called
	{"gate", (*call).decide},                // may the caller view it and call it
	{"breaker", (*call).checkBreaker},       // is the circuit breaker closed, for a new call
	{"prepare", (*call).prepare},            // what the server will be sent
	{"running", (*call).registerRunning},    // from here on a change of the mode cancels the call
	{"arguments", (*call).checkArguments},   // do they match the schema, the rules and the mode
	{"round", (*call).findRound},            // does it continue an earlier request
	{"interceptors", interceptCall},         // do the operator's interceptors let it pass, and how
	{"rates", (*call).checkRates},           // is it within the request rates, and no loop
	{"breaker again", (*call).checkBreaker}, // is the circuit breaker closed, for a continued call
	{"approval", (*call).approve},           // does it have the approval that it needs
	{"concurrency", (*call).acquire},        // is there a permit for it
	{"gate again", (*call).decideIfOld},     // is it still allowed, after the waits
	{"breaker pass", (*call).passBreaker},   // does the circuit breaker let it through
	{"round once", (*call).useRound},        // is it the only continuation of that request
	{"grant", (*call).useGrant},             // is it the only use of that approval
	{"budget", (*call).charge},              // do the budgets cover it
	{"gate last", (*call).decideIfOld},      // is it still allowed, after the charge
	{"begin", (*call).begin},                // audited before anything is delivered
	{"reuse", (*call).reuse},                // is there a fresh result of an equal call
	{"exchange", (*call).exchange},          // the request to the server and the response
}

// serve takes a call through the order and returns its response.
func (c *call) serve(ctx context.Context) (answer response) {
	defer func() { c.end(&answer, recover()) }()
	if err := c.pass(ctx); err != nil {
		return c.refuse(err)
	}
	return *c.answer
}

// pass is serve for a call that somebody else closes. The error is the reason of a
// refusal.
func (c *call) pass(ctx context.Context) error {
	c.ctx = ctx
	defer c.release()
	for i := range order {
		if c.plan.omitted[order[i].name] != "" {
			continue
		}
		if err := order[i].do(c); err != nil {
			return c.abandon(err)
		}
		if c.answer != nil {
			return nil
		}
	}
	return nil
}

// call answers a request that calls something by a name.
func (g *Gateway) call(ctx context.Context, x *Exchange, kind mcp.Kind, name string) response {
	waitCall(ctx, g, x, kind, name)
	c := g.newRequest(x, &planCall, kind, name)
	defer recycle(c)
	return c.serve(ctx)
}

// maxDecisionAge is how long a decision of the gate is acted on. A cached one may have
// been a second old already when the gate gave it.
const maxDecisionAge = time.Second

// decide asks the gate about a call. It records the time and the demands of the
// decision.
func (c *call) decide() (err error) {
	var args []byte
	if !c.plan.unlisted {
		args = c.route.argumentsOf(c.x)
	}
	c.demands, err = c.g.permitBy(c.ctx, &c.toGate, c.x, c.route, args, c.rec, func(d gate.Decision) error { return c.plan.hidden(c, d) })
	c.decided = time.Now()
	return err
}

// permit asks whether the caller may view something, has the scopes for it, and may
// call it, in this order. It uses the newest gate. It returns the demands of the
// decision, or the refusal: that of hidden where the caller may not view it, or where
// this cannot be decided. The decisions are added to rec, which may be nil.
func (g *Gateway) permit(ctx context.Context, x *Exchange, r *Route, args []byte, rec *record, hidden func(gate.Decision) error) ([]gate.Demand, error) {
	return g.permitBy(ctx, new(gate.Request), x, r, args, rec, hidden)
}

// permitBy is permit in the memory of a question, which nobody uses afterwards.
func (g *Gateway) permitBy(ctx context.Context, question *gate.Request, x *Exchange, r *Route, args []byte, rec *record, hidden func(gate.Decision) error) ([]gate.Demand, error) {
	snap := g.snapshot.Load()
	*question = r.question(gate.View, x.Identity, x.Scope) // only that of a call has arguments
	var d gate.Decision
	for _, action := range [...]gate.Action{gate.View, gate.Call} {
		var listener gate.Listener // an interface that holds a nil *record would not be nil
		if action == gate.Call {
			question.Action, question.Args = gate.Call, args
			if rec != nil {
				listener = rec
			}
		}
		d = snap.Chain.DecideFor(ctx, question, listener)
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

// view asks the gate whether the caller may view a route.
func (s *Snapshot) view(ctx context.Context, x *Exchange, r *Route) gate.Decision {
	question := r.question(gate.View, x.Identity, x.Scope)
	return s.Chain.DecideFor(ctx, &question, nil)
}

// errCancelled is the cancel cause of a request that the client cancelled.
var errCancelled = errors.New("cancelled by the client")
