package records

import (
	"context"
	"iter"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/intercept"
)

// Counting is what the gateway tells of its requests.
func (r *Records) Counting() *proxy.Metrics {
	if !build.KeepsRecords {
		return nil
	}
	return &proxy.Metrics{
		Call: r.count, Served: r.metrics.Served, Listed: r.metrics.Discovered,
		Sessions: r.metrics.Sessions, SessionEnded: r.metrics.SessionEnded,
		Limited: r.metrics.Limited, Redacted: r.metrics.Redacted,
		Intercepted: r.Intercepted,
	}
}

// Intercepted counts what an interceptor has said.
func (r *Records) Intercepted(e intercept.Event) {
	r.metrics.Intercepted(e.Interceptor, string(e.Phase), e.Outcome(), e.Took)
}

// count counts one closed call.
func (r *Records) count(e *audit.Entry) {
	r.execution(e)
	r.live.add(e)
	tool := ""
	if e.Kind == "tool" && e.Server != "" {
		tool = e.Name
	}
	r.done.Count(e.Server, tool, e.Outcome, e.DurationUS)
	if e.LeftOut > 0 || e.OutputInvalid {
		r.metrics.Result(e.Server, e.LeftOut > 0, e.OutputInvalid)
	}
	if e.Saved > 0 {
		r.metrics.Saved(e.Server, e.Saved)
	}
	for step := range stepsOf(e) {
		r.metrics.Decided(step.Phase, step.Verdict)
	}
	r.feeds.tell(e)
	r.metrics.Call(&telemetry.Call{
		Method: e.Method, Transport: e.Transport, Server: e.Server, Tool: tool, Outcome: string(e.Outcome), Code: e.Code, User: e.Principal.Subject,
		Took: time.Duration(e.DurationUS) * time.Microsecond, Upstream: time.Duration(e.UpstreamUS) * time.Microsecond,
	})
}

// stepsOf are the steps of a call, each phase in a row once: a phase that denies is
// followed by the refusal that it leads to.
func stepsOf(e *audit.Entry) iter.Seq2[*audit.Step, time.Duration] {
	return func(yield func(step *audit.Step, since time.Duration) bool) {
		before := int64(0)
		for i := range e.Steps {
			if i > 0 && e.Steps[i].Phase == e.Steps[i-1].Phase {
				continue
			}
			if !yield(&e.Steps[i], time.Duration(before)*time.Microsecond) {
				return
			}
			before = e.Steps[i].US
		}
	}
}

// CountCharge counts what happened to one charge of a budget.
func (r *Records) CountCharge(e budget.Event) {
	c := telemetry.Charge{Budget: e.Budget, Outcome: string(e.Outcome), Warned: e.Warned}
	if e.Outcome == budget.Granted && e.Limit > 0 {
		c.Limited, c.Measure, c.Owner, c.Until = true, e.Measure, e.Key, e.ResetAt
		c.Left = 1 - float64(e.Used)/float64(e.Limit)
	}
	r.metrics.Budget(&c)
}

// approvalsPause is how often the open questions are counted besides every time
// that one comes or goes: they expire, too.
const approvalsPause = 15 * time.Second

// countApprovals keeps the number of open questions, whoever asked them and
// wherever they are answered, until the context ends.
func (r *Records) countApprovals(ctx context.Context) error {
	tick := time.NewTicker(approvalsPause)
	defer tick.Stop()
	for {
		if n, err := r.store.Approvals().Pending(ctx); err == nil { // else the last known number stands
			r.metrics.Approvals(n)
		}
		select {
		case <-tick.C:
		case <-r.approvals:
		case <-ctx.Done():
			return nil
		}
	}
}

// auditStats is what the audit log has done so far.
func (r *Records) auditStats() telemetry.AuditStats {
	s := r.audit.Stats()
	return telemetry.AuditStats{Written: s.Written, Lost: s.Lost}
}
