package proxy

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/arena"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/proxy/inflight"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/result"
	"github.com/toolgate/toolgate/proxy/result/jq"
	"github.com/toolgate/toolgate/proxy/reuse"
)

// call is one request on its way through the [order], with everything that is known of
// it. Only the goroutine of the request uses it. Its memory is that of an earlier call, see
// [recycle].
type call struct {
	g    *Gateway
	x    *Exchange
	plan *plan
	kind mcp.Kind  // of what is called
	name string    // exposed name or URI of what is called
	via  string    // the tool of the find view that calls it; empty without one
	snap *Snapshot // taken at the start; only decisions use the newest gate
	rec  *record

	// ctx is the context of the request. Steps replace it by narrower ones, such as the
	// deadline of a budget.
	ctx context.Context

	route   *Route       // nil until it is found
	task    *task        // of a request about a task; else nil
	kept    *result.Kept // that is read; nil for anything else
	page    taskCursor   // of tasks/list
	watcher subscriber   // of a resource in subscriptions/listen
	why     error        // why nothing is listed to the caller; else nil
	given   *Exchange    // as its client sent it; x where nothing has changed its arguments
	request *mcp.Call    // to the server; nil until it is prepared
	retry   *retry       // of a call that continues; else nil

	toGate  gate.Request  // memory for what the gate and the rules are asked, while they are
	decided time.Time     // when the gate decided
	demands []gate.Demand // conditions of that decision
	// intercepted is the hash of the arguments that interceptors have left; empty where
	// they have changed nothing.
	intercepted string
	// sampled are the gateway's own InputResponses to an input request whose other questions
	// go to the client; nil where there are none.
	sampled  []byte
	consent  consent     // of a call that needs an approval
	approved approvals   // of the call, also in earlier rounds
	reserved reservation // charged for this round
	sent     time.Time   // when the request was sent to the server
	key      *reuse.Key  // of the result, where it may be reused; else nil
	own      *jq.Program // by which the model selects from the result; else nil
	asked    bool        // the server asked something during the call
	accepted *mcp.Answer // the result of the server, once it was passed on; else nil

	running   *inflight.Call // nil until the gate has let the call pass
	suspended *suspended     // of a call to a legacy server for a modern client; else nil
	waits     bool           // the call continues with another request
	loopEnd   func()         // ends the loop detection of the call; nil without one
	atEnd     []func()       // releases what the call holds, last taken first

	answer   *response    // nil until there is one
	response response     // memory of the answer
	memory   *arena.Arena // for a large result; nil until it is lent

	// held means that something may use the call or its record after its end.
	held  bool
	ended bool // the audit entry is written, and the call did not panic
}

// calls are calls that have ended, as memory for others. Each has a record, and is else zero
// but for the room of atEnd.
var calls = sync.Pool{New: func() any { return &call{rec: new(record)} }}

// newRequest begins a request for kind and name. Its audit entry is open until
// [call.end].
func (g *Gateway) newRequest(x *Exchange, p *plan, kind mcp.Kind, name string) *call {
	c := calls.Get().(*call)
	c.g, c.x, c.given, c.plan, c.kind, c.name, c.snap = g, x, x, p, kind, name, g.snapshot.Load()
	c.rec.open(g, x, c.snap, kind, name)
	if !p.silent {
		c.rec.trace()
	}
	return c
}

// setRoute records what the call is about.
func (c *call) setRoute(r *Route) {
	c.route = r
	c.rec.routed(r)
}

// wellFormed checks the request itself, where the table of methods has not.
func (c *call) wellFormed() error {
	if c.plan.check == nil {
		return nil
	}
	return c.plan.check(c)
}

// audited refuses a call whose audit entry could not be kept.
func (c *call) audited() error {
	if err := c.g.opts.Auditor.Healthy(); err != nil {
		return refusal.AuditDown(err)
	}
	return nil
}

// find looks up what the call is about.
func (c *call) find() error { return c.plan.find(c) }

// checkBreaker refuses a call when the circuit breaker is open, before people are asked
// and anything is charged.
func (c *call) checkBreaker() error { return c.route.to.checkBreaker(c.x, c.route, c.retry) }

// prepare makes the request to the server.
func (c *call) prepare() error { return c.plan.prepare(c) }

// registerRunning records that the call is under way, so that it can be cancelled.
func (c *call) registerRunning() error {
	ctx, done, err := beginCall(c)
	if err != nil {
		return err
	}
	c.ctx = ctx
	c.atEnd = append(c.atEnd, done)
	return nil
}

// beginCall registers a call until done is called. The context of the call ends then, or
// when the call is cancelled. A call is registered before the mode in force is checked, so
// that either this check or CancelCalls sees a change of the mode. No call begins while the
// gateway shuts down.
func beginCall(c *call) (_ context.Context, done func(), err error) {
	running := &inflight.Call{Request: c.route.question(gate.Call, c.x.Identity, c.x.Scope), Listed: c.route.item}
	c.running = running
	ctx := cancel.New(c.ctx)
	goesOn := c.task != nil || c.retry != nil && c.retry.state.resume == resumeSuspended // which nobody else can go on with
	if !c.g.inFlight.Add(running, goesOn, ctx.Cancel) {
		ctx.Cancel(refusal.Ending)
		return nil, nil, refusal.Ending
	}
	return ctx, func() {
		c.g.inFlight.Remove(running)
		if why := context.Cause(ctx); why != nil && c.waits && c.suspended != nil {
			c.suspended.cancel(why) // it was cancelled between its rounds, before it waited for the next
		}
		ctx.Cancel(nil)
	}, nil
}

// checkArguments checks the arguments against the schema and the rules, and the call
// against the mode in force.
func (c *call) checkArguments() error {
	if err := c.plan.checkArguments(c); err != nil {
		return err
	}
	c.rec.passed("arguments")
	return nil
}

// findRound finds the earlier request that this one continues.
func (c *call) findRound() (err error) {
	c.retry, err = c.g.rounds.find(c)
	return err
}

// acquire takes a permit to call the server.
func (c *call) acquire() error {
	slots, who := c.route.to.permits, c.x.Identity.Key()
	if err := slots.Acquire(c.ctx, c.route.Server, who); err != nil {
		return err
	}
	c.atEnd = append(c.atEnd, func() { slots.Release(who) })
	return nil
}

// passBreaker asks the circuit breaker of the server for its permit.
func (c *call) passBreaker() error {
	giveBack, err := c.route.to.admit(c.request, c.retry)
	if err != nil {
		return err
	}
	c.atEnd = append(c.atEnd, giveBack)
	if c.rec.entry.Breaker = breakerState(c.request); c.rec.entry.Breaker != "" {
		c.rec.step("breaker", verdictPass, c.rec.entry.Breaker, "")
	}
	return nil
}

// useRound uses up the sealed state that the call continues with.
func (c *call) useRound() error { return c.g.rounds.use(c) }

// useGrant uses up the approval of the call.
func (c *call) useGrant() error { return c.consent.useGrant(c.ctx) }

// charge reserves what the call may use from its budgets.
func (c *call) charge() error { return c.plan.charge(c) }

// begin writes the audit line that the call begins.
func (c *call) begin() error { return c.rec.begin() }

// exchange sends the request to the server and answers the client.
func (c *call) exchange() error {
	answer, err := c.plan.execute(c)
	if err != nil {
		return err
	}
	respond(c, answer)
	return nil
}

// respond sets the answer of the call.
func respond(c *call, answer response) {
	c.response = answer
	c.answer = &c.response
}

// recycle gives the memory of the call to a later one. It does so only with a call that has
// gone from the beginning to its end in the most usual way: what another way has left that
// knows the call might read there what belongs to somebody else. Whoever began the call, and
// has called [call.serve], may call recycle then, and must not use the call afterwards.
func recycle(c *call) {
	if c.held || !c.ended || c.answer == nil || c.plan != &planCall || c.retry != nil || c.key != nil || c.suspended != nil {
		return
	}
	if c.given.over != nil {
		*c.given.over = true
	}
	rec, atEnd := c.rec, c.atEnd
	clear(atEnd)
	*rec = record{}
	*c = call{rec: rec, atEnd: atEnd[:0]}
	calls.Put(c)
}

// abandon marks the charge of a call that a step refused as undelivered, so that it is
// given back, and ends its round. It returns the reason.
func (c *call) abandon(why error) error {
	if c.reserved.receipt != nil {
		c.reserved.undelivered = true
	}
	return c.retry.ended(why)
}

// release gives back what the call holds, last taken first.
func (c *call) release() {
	for _, end := range c.atEnd {
		defer end()
	}
}

// refuse records why the call is refused and renders the refusal for the client.
func (c *call) refuse(err error) response { return c.g.refuse(c.x, c.recordRefusal(err)) }

// recordRefusal records why the call is refused and returns the classified reason.
func (c *call) recordRefusal(err error) error {
	err = c.rec.recordRefusal(err)
	if e, ok := err.(*refusal.Error); ok { //nolint:errorlint // it is classed
		c.noteRefusal(e.Budget)
	}
	return err
}

// end writes the audit entry and ends what the call still runs, unless the call
// continues with another request. It turns a panic of the call into its response.
func (c *call) end(answer *response, panicked any) {
	if panicked != nil {
		c.g.log.Error("panic in a call", "call", c.rec.entry.CallID, "panic", panicked, "stack", string(debug.Stack()))
		*answer = errorResponse(mcp.Errorf(mcp.CodeInternal, "Internal error"))
		c.rec.entry.Outcome, c.rec.entry.Reason = audit.OutcomeError, "panic"
	}
	c.settle() // after a panic
	if c.waits {
		if c.rec.span != nil {
			c.rec.span.Suspended()
		}
		return
	}
	if c.suspended != nil { // ended, for whatever reason
		c.suspended.cancel(errSuspendedEnded)
	}
	if c.loopEnd != nil {
		c.loopEnd()
	}
	c.rec.finish(answer)
	c.ended = panicked == nil
}

// breakerState is the state of the circuit breaker that let a call through. It is empty
// where no breaker was asked.
func breakerState(request *mcp.Call) string {
	p, ok := request.Permit.(*guard.Permit)
	switch {
	case !ok:
		return ""
	case p.Trial():
		return guard.HalfOpen.String()
	}
	return guard.Closed.String()
}

// checkBreaker returns a refusal while the breaker of the backend or tool is open. A
// new call is checked before anything else is done for it. A continued call is checked
// once its round is known, unless its server works on it already.
func (s *backendEntry) checkBreaker(x *Exchange, r *Route, again *retry) error {
	g, guarded := s.backend.(*guard.Guard)
	begins := x.Message.Param("requestState") == nil
	if !guarded || begins != (again == nil) || again != nil && again.state.resume == resumeSuspended {
		return nil
	}
	return g.Peek(r.Kind, r.Original)
}

// admit gets a call through the circuit breaker, before it is charged: what a breaker
// refuses costs nothing. giveBack must be called at the end of the call.
func (s *backendEntry) admit(call *mcp.Call, again *retry) (giveBack func(), err error) {
	g, guarded := s.backend.(*guard.Guard)
	if !guarded || again != nil && again.state.resume == resumeSuspended {
		return func() {}, nil
	}
	p, err := g.Enter(call.Kind, call.Key)
	if err != nil {
		return nil, err
	}
	call.Permit = p
	return p.GiveBack, nil
}
