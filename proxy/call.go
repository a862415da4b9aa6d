package proxy

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/result"
)

// call is one request on its way through the [order], with all that is known of it.
// It belongs to the goroutine of its request.
type call struct {
	g    *Gateway
	x    *Exchange
	plan *plan
	kind mcp.Kind  // what is asked for
	name string    // and by which name
	snap *Snapshot // that of its beginning; decisions alone ask the newest
	rec  *record

	// ctx is the context of the request. Steps narrow it to what may end the call
	// besides.
	ctx context.Context

	route   *Route       // nil until it is found
	task    *task        // of a request about one; else nil
	kept    *result.Kept // that is read; nil for anything else
	page    taskCursor   // of a list of tasks
	watcher subscriber   // of a resource that is listened to
	why     error        // why nothing is listed; nil where it is
	request *mcp.Call    // what the server is sent; nil until it is prepared
	retry   *retry       // of a call that goes on; else nil

	decided  time.Time     // when the gate was asked
	demands  []gate.Demand // under which it allows the call
	consent  consent       // of a call for which people were asked
	approved approvals     // of it, also in an earlier round
	reserved reservation   // of this round
	sent     time.Time     // when the server was

	running   *RunningCall // once the gate let it pass
	suspended *suspended   // of a call to a legacy server for a modern client; else nil
	waits     bool         // the call goes on with another request
	loopEnd   func()       // of a call that is held against those before it; else nil
	atEnd     []func()     // what is given back, last taken first

	answer *response // nil until there is one
}

// newRequest begins a request for something by a name. Its audit entry is open until
// [call.close].
func (g *Gateway) newRequest(x *Exchange, p *plan, kind mcp.Kind, name string) *call {
	snap := g.snapshot.Load()
	c := &call{g: g, x: x, plan: p, kind: kind, name: name, snap: snap, rec: g.newRecord(x, snap, kind, name)}
	if !p.silent {
		c.rec.trace()
	}
	return c
}

// setRoute notes what the call is about.
func (c *call) setRoute(r *Route) {
	c.route = r
	c.rec.routed(r)
}

// wellFormed is the step that looks at the request itself, as far as the table of
// methods has not.
func (c *call) wellFormed() error {
	if c.plan.check == nil {
		return nil
	}
	return c.plan.check(c)
}

// audited refuses a call whose entry could not be kept.
func (c *call) audited() error {
	if err := c.g.opts.Auditor.Healthy(); err != nil {
		return refusal.AuditDown(err)
	}
	return nil
}

// find looks up what the call is about.
func (c *call) find() error { return c.plan.find(c) }

// checkBreaker refuses a call of what a breaker has opened for, before people are asked and
// anything is charged.
func (c *call) checkBreaker() error { return c.route.to.checkBreaker(c.x, c.route, c.retry) }

// prepare makes what the server is sent.
func (c *call) prepare() error { return c.plan.prepare(c) }

// registerRunning notes that the call is under way, so that it can be ended.
func (c *call) registerRunning() error {
	ctx, done, err := c.g.inFlight.begin(c)
	if err != nil {
		return err
	}
	c.ctx = ctx
	c.atEnd = append(c.atEnd, done)
	return nil
}

// checkArguments holds the arguments against the schema and the rules, and the call against
// the mode in force.
func (c *call) checkArguments() error {
	if err := c.plan.checkArguments(c); err != nil {
		return err
	}
	c.rec.passed("arguments")
	return nil
}

// findRound finds the call that the request goes on with.
func (c *call) findRound() (err error) {
	c.retry, err = c.g.rounds.recognise(c)
	return err
}

// acquire takes a place at the server.
func (c *call) acquire() error {
	slots, who := c.route.to.slots, c.x.Identity.Key()
	if err := slots.Acquire(c.ctx, c.route.Server, who); err != nil {
		return err
	}
	c.atEnd = append(c.atEnd, func() { slots.Release(who) })
	return nil
}

// passBreaker passes the breaker of the server.
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

// useRound uses up the state that a call goes on with.
func (c *call) useRound() error { return c.g.rounds.admit(c) }

// useGrant uses up the approval of the call.
func (c *call) useGrant() error { return c.consent.useGrant(c.ctx) }

// charge takes what the call may use from its budgets.
func (c *call) charge() error { return c.plan.charge(c) }

// begin writes the line of the audit log that the call begins.
func (c *call) begin() error { return c.rec.begin() }

// execute sends the request to the server and answers the client.
func (c *call) exchange() error {
	answer, err := c.plan.execute(c)
	if err != nil {
		return err
	}
	c.answer = &answer
	return nil
}

// stopped ends what a call has begun that is refused, and returns why. A charge is
// given back, because nothing was delivered for it.
func (c *call) stopped(why error) error {
	if c.reserved.receipt != nil {
		c.reserved.undelivered = true
	}
	return c.retry.ended(why)
}

// release gives back what was taken for the call, last taken first.
func (c *call) release() {
	for _, end := range c.atEnd {
		defer end()
	}
}

// refuse notes why the call is refused and renders it for the client.
func (c *call) refuse(err error) response { return c.g.refuse(c.x, c.refused(err)) }

// refused notes why the call is refused and returns the reason, classed.
func (c *call) refused(err error) error {
	err = c.rec.refused(err)
	if e, ok := err.(*refusal.Error); ok { //nolint:errorlint // it is classed
		c.noteRefusal(e.Budget)
	}
	return err
}

// close writes the entry, and ends what of the call still runs, unless the call
// goes on with another request. A panic of the call becomes its answer.
func (c *call) close(answer *response, panicked any) {
	if panicked != nil {
		c.g.log.Error("panic in a call", "call", c.rec.entry.CallID, "panic", panicked, "stack", string(debug.Stack()))
		*answer = errorResponse(mcp.Errorf(mcp.CodeInternal, "Internal error"))
		c.rec.entry.Outcome, c.rec.entry.Reason = audit.OutcomeError, "panic"
	}
	c.settle() // of a call that panicked
	if c.waits {
		if c.rec.span != nil {
			c.rec.span.Suspended()
		}
		return
	}
	if c.suspended != nil { // that it has ended, whatever happened
		c.suspended.cancel(errSuspendedEnded)
	}
	if c.loopEnd != nil {
		c.loopEnd()
	}
	c.rec.finish(answer)
}

// breakerState is the state of the circuit breaker that let a call through; empty
// where none was asked.
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

// checkBreaker returns the refusal of a call whose backend is not called for now: of one
// that begins before anything is done for it, of one that goes on when it is known
// which it is, and that its server does not work on it already.
func (s *backendEntry) checkBreaker(x *Exchange, r *Route, again *retry) error {
	g, guarded := s.backend.(*guard.Guard)
	begins := x.Message.Param("requestState") == nil
	if !guarded || begins != (again == nil) || again != nil && again.state.resume == resumeSuspended {
		return nil
	}
	return g.Peek(r.Kind, r.Original)
}

// useRound lets a call through to its backend, before it is charged: what a breaker
// refuses costs nothing. giveBack is called at the end of the call.
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
