package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// This file is about what calls cost (ADR 0022): the charge before a round is
// delivered, the bounds that come with it, and its end.

// defaultResult is how large a result may be where a mount says nothing else.
const defaultResult = 32 << 20

// BudgetKey is the member of _meta that warns of budgets that are nearly used up.
const BudgetKey = "dev.toolgate/budget"

// bought is what a round was charged and has used of it.
type bought struct {
	receipt *budget.Receipt // nil for one that was charged nothing
	bytes   int64           // of the result as the server sent it
	took    time.Duration
	back    bool // it surely was not delivered
	stop    context.CancelFunc

	delivered bool // some request of the round was, or of a call that is parked

	settled bool
	low     []budget.Fact // budgets of which much is used
}

// charge takes what a round of the call may use. later tells that an earlier round
// of it was charged. The context that it returns ends when the round has used up
// the time that it was given.
func (rec *record) charge(ctx context.Context, snap *Snapshot, r *Route, later bool) (context.Context, error) {
	defer func() { rec.sent = time.Now() }()
	if !budgeted(rec.entry.Method) || !snap.Limiter.Charges() {
		return ctx, nil
	}
	u := rec.usage(r)
	u.Later = later
	if snap.class != nil {
		u.Class = func() string { return snap.class(r.question(gate.Call, rec.x.Identity, rec.x.Scope), r.item) }
	}
	receipt, err := snap.Limiter.Charge(ctx, u)
	if err != nil {
		return nil, err
	}
	if !receipt.Charged() {
		return ctx, nil
	}
	rec.bought.receipt, rec.bought.stop = receipt, func() {}
	if limit, bounded := receipt.Time(); bounded {
		var why error = &mcp.Failure{
			Kind: mcp.FailTimeout, Origin: mcp.OriginServer, Server: r.Server, Delivered: true,
			Reason: "The server " + r.Server + " did not answer within its deadline.",
		}
		if limit < u.Time.Truncate(time.Millisecond) {
			why = refusal.SpentTime(receipt.Spent(budget.Seconds))
		}
		ctx, rec.bought.stop = context.WithTimeoutCause(ctx, limit, why)
	}
	return ctx, nil
}

// budgeted tells whether budgets count a method.
func budgeted(method string) bool {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodRead,
		mcp.MethodTaskGet, mcp.MethodTaskResult, mcp.MethodTaskUpdate:
		return true
	}
	return false
}

// usage is what a round of the call may use.
func (rec *record) usage(r *Route) budget.Usage {
	id, e := rec.x.Identity, &rec.entry
	return budget.Usage{
		CallID: e.CallID, Round: e.Rounds, Tool: r.Kind == mcp.Tool,
		Issuer: id.Issuer, Tenant: id.Tenant, Subject: id.Subject, Persona: id.Persona, Plan: id.Plan,
		Name: rec.called, Plain: r.Plain, Server: r.Server, Original: r.Original, Cost: rec.cost,
		Bytes: int64(r.to.mount.maxResult()), Time: r.hard(),
	}
}

// maxResult is how large a result of the backend may be, in bytes.
func (m *Mount) maxResult() int {
	if m.Result <= 0 {
		return defaultResult
	}
	return m.Result
}

// carried notes what a round has used, ends its charge, and returns its error: the
// backend's, or that the result is larger than what it was given. After it the
// record may belong to the rounds.
func (rec *record) carried(got *mcp.Answer, err error) error {
	defer rec.settle()
	b := &rec.bought
	if !rec.sent.IsZero() {
		b.took = time.Since(rec.sent)
		rec.entry.UpstreamUS += b.took.Microseconds()
	}
	if rec.span != nil {
		rec.span.Received(&rec.entry, got.Fault, err)
	}
	if err != nil {
		failure, failed := errors.AsType[*mcp.Failure](err)
		b.back = failed && !failure.Delivered && !b.delivered
		return err
	}
	b.bytes = int64(len(got.Result))
	if got.Fault != nil {
		b.bytes = int64(len(got.Fault.Data) + len(got.Fault.Message))
	}
	if limit, bounded := b.receipt.Bytes(); bounded && b.bytes > limit {
		b.bytes = limit // the next one need not run to find that out
		return refusal.SpentBytes(b.receipt.Spent(budget.Bytes))
	}
	return nil
}

// notMade notes that a round which was charged is not made, and returns why.
func (rec *record) notMade(why error) error {
	rec.bought.back = true
	return why
}

// settle ends the charge of a round. It is given back when the call surely was not
// delivered; a charge that cannot be given back stays.
func (rec *record) settle() {
	b := &rec.bought
	if b.receipt == nil {
		return
	}
	defer b.stop()
	ctx := context.Background() // the call has ended, and its charge is to end too
	end := func() error { return b.receipt.Settle(ctx, b.bytes, b.took) }
	if b.back {
		end = func() error { return b.receipt.Refund(ctx) }
	} else {
		rec.noteBudgets(b.receipt.Facts(b.bytes, b.took))
		b.low = b.receipt.Warnings(b.bytes, b.took)
	}
	if err := end(); err != nil {
		rec.g.log.Error("charge not given back", "call", rec.entry.CallID, "err", err)
	}
	b.receipt, b.settled = nil, true
}

// noteBudgets writes down what was charged.
func (rec *record) noteBudgets(facts []budget.Fact) {
	for _, f := range facts {
		rec.entry.Budgets = append(rec.entry.Budgets, audit.Budget{
			Name: f.Budget, Key: f.Key, Unit: string(f.Unit), Amount: f.Amount, Used: f.Used, Limit: f.Limit,
		})
	}
}

// noteRefusal writes down which budget refused the call, and took nothing.
func (rec *record) noteRefusal(by *budget.Refusal) {
	if by == nil || rec.bought.receipt != nil || rec.bought.settled { // with what was charged
		return
	}
	rec.entry.Budgets = append(rec.entry.Budgets, audit.Budget{
		Name: by.Budget, Key: by.Key, Unit: string(by.Unit), Used: by.Used, Limit: by.Limit,
	})
}

// warned returns an answer that tells of the budgets of which much is used.
func (rec *record) warned(answer reply) reply {
	low := rec.bought.low
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
