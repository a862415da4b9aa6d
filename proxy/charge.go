package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// This file charges calls to budgets (ADR 0022): the charge before a round is
// delivered, the bounds that come with it, and its settlement.

// defaultResult bounds a result where the mount sets no bound.
const defaultResult = 32 << 20

// BudgetKey is the member of _meta that warns of budgets that are nearly used up.
const BudgetKey = "dev.toolgate/budget"

// reservation is what a round was charged and how much of it is used.
type reservation struct {
	receipt *budget.Receipt // nil when nothing was charged
	bytes   int64           // of the result as the server sent it
	took    time.Duration
	stop    context.CancelFunc

	undelivered bool // certainly not delivered, so the charge is given back
	delivered   bool // a request of the round was delivered, or one of a suspended call

	settled bool
	low     []budget.Fact // budgets that are nearly used up
}

// chargeRound reserves what a round of the call may use. The context of the call ends
// when the round has used up its reserved time.
func chargeRound(c *call) error {
	defer func() { c.sent = time.Now() }()
	if budgeted(c.rec.entry.Method) && c.snap.Limiter.Charges() {
		if err := c.reserve(); err != nil {
			return err
		}
	}
	c.rec.passed("budget")
	return nil
}

// reserve charges a round.
func (c *call) reserve() error {
	r := c.route
	u := c.usage()
	if c.snap.class != nil {
		u.Class = func() string { return c.snap.class(r.question(gate.Call, c.x.Identity, c.x.Scope), r.item) }
	}
	held := c.held
	c.held = true // by what may still look at the usage of a charge that failed
	receipt, err := c.snap.Limiter.Charge(c.ctx, u)
	if err != nil {
		return err
	}
	c.held = held
	if !receipt.Charged() {
		return nil
	}
	c.reserved.receipt, c.reserved.stop = receipt, func() {}
	if limit, bounded := receipt.Time(); bounded {
		var why error = &mcp.Failure{
			Kind: mcp.FailTimeout, Origin: mcp.OriginServer, Server: r.Server, Delivered: true,
			Reason: "The server " + r.Server + " did not answer within its deadline.",
		}
		if limit < u.Time.Truncate(time.Millisecond) {
			why = refusal.SpentTime(receipt.Spent(budget.Seconds))
		}
		c.ctx, c.reserved.stop = context.WithTimeoutCause(c.ctx, limit, why)
		c.held = true // by a context that is not of internal/cancel
	}
	return nil
}

// budgeted reports whether budgets count a method.
func budgeted(method string) bool {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodRead,
		mcp.MethodTaskGet, mcp.MethodTaskResult, mcp.MethodTaskUpdate:
		return true
	}
	return false
}

// usage is what a round of the call may use. Only the first round counts as a call.
func (c *call) usage() budget.Usage {
	id, r, e := c.x.Identity, c.route, &c.rec.entry
	return budget.Usage{
		CallID: e.CallID, Round: e.Rounds, Tool: r.Kind == mcp.Tool, Later: c.task != nil || c.retry.charged(),
		Issuer: id.Issuer, Tenant: id.Tenant, Subject: id.Subject, Persona: id.Persona, Plan: id.Plan, Agent: id.Agent(),
		Name: c.name, Unsuffixed: r.Unsuffixed, Server: r.Server, Original: r.Original, Cost: r.cost(),
		Bytes: int64(r.to.mount.maxResult()), Time: r.hard(),
	}
}

// maxResult bounds the results of the backend, in bytes.
func (m *Mount) maxResult() int {
	if m.Result <= 0 {
		return defaultResult
	}
	return m.Result
}

// settleRound records what a round has used and settles its charge. The error is the
// backend's, or that the result exceeds the reserved bytes.
func (c *call) settleRound(got *mcp.Answer, err error) error {
	defer c.settle()
	b := &c.reserved
	if !c.sent.IsZero() {
		b.took = time.Since(c.sent)
		c.rec.entry.UpstreamUS += b.took.Microseconds()
	}
	if c.rec.span != nil {
		c.rec.span.Received(&c.rec.entry, got.Fault, err)
	}
	if err != nil {
		failure, failed := errors.AsType[*mcp.Failure](err)
		b.undelivered = b.undelivered || failed && !failure.Delivered && !b.delivered
		return err
	}
	b.bytes = int64(len(got.Result))
	if got.Fault != nil {
		b.bytes = int64(len(got.Fault.Data) + len(got.Fault.Message))
	}
	if limit, bounded := b.receipt.Bytes(); bounded && b.bytes > limit {
		b.bytes = limit // so that the next call need not run to find that out
		return refusal.SpentBytes(b.receipt.Spent(budget.Bytes))
	}
	return nil
}

// settle ends the charge of a round. A call that certainly was not delivered gets it
// back. A charge that cannot be given back stays.
func (c *call) settle() {
	b := &c.reserved
	if b.receipt == nil {
		return
	}
	defer b.stop()
	ctx := context.Background() // the charge must be settled although the call has ended
	end := func() error { return b.receipt.Settle(ctx, b.bytes, b.took) }
	if b.undelivered {
		end = func() error { return b.receipt.Refund(ctx) }
	} else {
		c.rec.noteBudgets(b.receipt.Facts(b.bytes, b.took))
		b.low = b.receipt.Warnings(b.bytes, b.took)
	}
	if err := end(); err != nil {
		c.g.log.Error("charge not given back", "call", c.rec.entry.CallID, "err", err)
	}
	b.receipt, b.settled = nil, true
}

// noteBudgets adds what was charged to the audit entry.
func (rec *record) noteBudgets(facts []budget.Fact) {
	for _, f := range facts {
		rec.entry.Budgets = append(rec.entry.Budgets, audit.Budget{
			Name: f.Budget, Key: f.Key, Unit: string(f.Unit), Amount: f.Amount, Used: f.Used, Limit: f.Limit,
		})
	}
}

// noteRefusal adds the budget that refused the call, and charged nothing, to the audit
// entry.
func (c *call) noteRefusal(by *budget.Refusal) {
	if by == nil || c.reserved.receipt != nil || c.reserved.settled { // recorded with what was charged
		return
	}
	c.rec.entry.Budgets = append(c.rec.entry.Budgets, audit.Budget{
		Name: by.Budget, Key: by.Key, Unit: string(by.Unit), Used: by.Used, Limit: by.Limit,
	})
}

// warned adds a warning about nearly used budgets to a response.
func (c *call) warned(answer response) response {
	low := c.reserved.low
	if len(low) == 0 || answer.result == nil {
		return answer
	}
	list := []byte("[")
	for i, f := range low {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(mcp.AppendQuote(append(list, `{"budget":`...), f.Budget), `,"unit":`...)
		list = fmt.Appendf(mcp.AppendQuote(list, string(f.Unit)), `,"limit":%d,"used":%d,"reset_at":`, f.Limit, f.Used)
		list = append(mcp.AppendQuote(list, f.ResetAt.UTC().Format(time.RFC3339)), '}')
	}
	meta := mcp.SetMember(mcp.Lookup(answer.result, "_meta"), BudgetKey, append(list, ']'))
	answer.result = mcp.SetMember(answer.result, "_meta", meta)
	return answer
}

// checkRates checks a call against the request rates, and against earlier calls of the
// same caller. All rounds of a call count as one.
func (c *call) checkRates() error {
	if err := c.checkRateLimits(); err != nil {
		return err
	}
	c.rec.passed("rates")
	return nil
}

func (c *call) checkRateLimits() error {
	switch {
	case c.retry != nil:
		return nil
	case c.x.Message.Method == mcp.MethodComplete:
		return c.g.requests.Take(limit.Completions, c.x.Identity.Key())
	}
	var rates *rate.Taking
	if c.snap.rates != nil {
		rates = c.snap.rates.Begin(c.route.rateCall(c.x.Identity))
	}
	if err := c.checkLoop(rates); err != nil {
		rates.Cancel()
		return err
	}
	return rates.End(c.ctx)
}

// checkLoop compares a tool call with earlier ones. It uses the hash of the arguments
// from the audit entry, which is computed once. Where gateways count together, the same
// exchange takes what the call needs from the rates.
func (c *call) checkLoop(rates *rate.Taking) error {
	most := c.g.loops.Most()
	if most <= 0 || c.x.Message.Method != mcp.MethodToolsCall {
		return nil
	}
	given := c.x.Message.Param("arguments")
	sent, program := c.route.results().Shaping.Arguments(c.route.input, given) // what is selected from a result is no other call
	hash := mcp.Hash(sent)
	if program == nil {
		c.rec.entry.ArgsHash = hexOf(hash)
	}
	end, wait := c.g.loops.Begin(c.ctx, limit.Call{Principal: c.x.Identity.Key(), Server: c.route.Server, Tool: c.route.Original, Args: hash}, rates)
	if end == nil {
		c.g.opts.Metrics.limited("identical_calls")
		return refusal.Repeated(c.route.Exposed, most, wait)
	}
	c.loopEnd = end
	return nil
}

// rateCall describes a call of id for rates.
func (r *Route) rateCall(id *gate.Identity) *rate.Call {
	return &rate.Call{
		Principal: id.Key(), Tenant: id.Tenant, Persona: id.Persona,
		Server: r.Server, Kind: r.Kind.String(), Original: r.Original, Exposed: r.Exposed, Unsuffixed: r.Unsuffixed,
	}
}
