package records

import (
	"context"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// execution adds a closed call of a tool to the execution log, which nobody waits
// for. What no server has is no tool.
func (r *Records) execution(e *audit.Entry) {
	if !build.Executed || e.Method != mcp.MethodToolsCall || e.Server == "" {
		return
	}
	r.executions.Add(store.Execution{
		At: e.Time, CallID: e.CallID, Server: e.Server, Tool: e.Name, Tenant: e.Principal.Tenant, Persona: e.Principal.Persona,
		Session: e.Session, Success: e.Outcome == audit.OutcomeOK, ErrorClass: errorClass(e),
		Duration: time.Duration(e.DurationUS) * time.Microsecond, Upstream: time.Duration(e.UpstreamUS) * time.Microsecond,
		RequestSize: e.BytesIn, ResponseSize: e.BytesOut, Saved: e.Saved, ArgsHash: e.ArgsHash,
		Principal: gate.Principal{Issuer: e.Principal.Issuer, Tenant: e.Principal.Tenant, Subject: e.Principal.Subject}.Key(),
	})
}

// errorClass is why a call is no success: the kind of the refusal, or the outcome.
func errorClass(e *audit.Entry) string {
	switch {
	case e.Outcome == audit.OutcomeOK:
		return ""
	case e.Outcome == audit.OutcomeDenied && e.Code != "":
		return e.Code
	}
	return string(e.Outcome)
}

// failed are the error classes that are outcomes. The others are kinds of refusals.
var failed = map[audit.Outcome]bool{
	audit.OutcomeToolError: true, audit.OutcomeError: true, audit.OutcomeCancelled: true, audit.OutcomeAbandoned: true, audit.OutcomeUnknown: true,
}

// ToolUsage implements [admin.UsageReader].
func (from Reader) ToolUsage(ctx context.Context, since time.Time, by []string) ([]admin.ToolUsage, error) {
	all, err := from.r.executions.Usage(ctx, since, by...)
	if err != nil {
		return nil, err
	}
	out := make([]admin.ToolUsage, 0, len(all))
	for i := range all {
		u := &all[i]
		one := admin.ToolUsage{
			Group: map[string]string{}, Calls: u.Calls, Failures: u.Failures, Errors: u.Errors,
			P50MS: float64(u.P50.Microseconds()) / 1000, P95MS: float64(u.P95.Microseconds()) / 1000, BytesIn: u.BytesIn, BytesOut: u.BytesOut, BytesSaved: u.BytesSaved,
		}
		for n, name := range by {
			one.Group[name] = u.Group[n]
		}
		for class, n := range u.Errors {
			if !failed[audit.Outcome(class)] {
				one.Refused += n
				one.Failures -= n
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// Executions is the log of executions, for statistics.
func (r *Records) Executions() *store.Executions { return r.executions }
