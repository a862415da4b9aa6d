// Package refusal is the table of all refusals: what a client is told when the gateway
// does not answer a call with the backend's response. Each kind has a code, a phase and
// a text (docs/refusals.md). An [Error] renders itself as a tool result or a JSON-RPC
// error.
package refusal

import (
	"strconv"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Error is a refusal. Several calls may share one, so it must not be modified once it
// is returned.
type Error struct {
	Kind       string // stable: clients and operators may act on it
	Code       int    // JSON-RPC code where the method has no isError; 1001 to 1007
	Phase      string // the part of the gateway that refused
	Origin     mcp.Origin
	Text       string // one sentence that a model can act on
	RetryAfter time.Duration
	Budget     *budget.Refusal
	Limit      int64  // of a rate; 0 without one
	Decision   string // id of the decision, which is the call id
	Approval   string // id of the approval question; empty without one
	Partial    []byte // the backend's messages before it was given up, a JSON object; nil for nothing
	// Unavailable makes the HTTP status of a limit 503 instead of 429: the client has
	// not sent too much.
	Unavailable bool
	// Protocol makes it a JSON-RPC error even for tools: the gateway itself cannot
	// decide.
	Protocol bool
	Err      error // for the log
	// Rule is what refused and Change what would lift that. They are for explanations;
	// the caller is told neither.
	Rule   gate.Rule
	Change *gate.Change
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Codes of refusals, outside the range that JSON-RPC reserves.
const (
	CodeUnavailable = 1001 // authorization, policy, store, audit or backend
	CodeDenied      = 1002
	CodeArguments   = 1003
	CodeApproval    = 1004
	CodeRate        = 1005
	CodeBudget      = 1006
	CodeBreaker     = 1007
)

// Key is the member of _meta that holds a refusal.
const Key = "dev.toolgate/refusal"

// Kinds that code elsewhere acts on.
const (
	// KindScope is the kind of a refusal that more scopes would lift. Over HTTP it is a
	// status and a challenge where the response has not begun (2026-07-28
	// basic/authorization, Scope Challenge Handling).
	KindScope = "insufficient_scope"
	// KindRate is the kind of a request that exceeds a rate.
	KindRate = "rate_limited"
	// KindGatewayLost is the kind of a request whose gateway was gone before it answered.
	KindGatewayLost = "gateway_lost"
	// KindInternal is the kind of a failure of the gateway itself.
	KindInternal = "internal"
)

// Phases that are not phases of the gate.
const (
	PhaseScopes  = "scopes"  // checks calls against the scopes of their callers
	PhaseResults = "results" // checks results
	PhaseBreaker = "breaker"
	// PhaseInterceptors asks the operator's interceptors.
	PhaseInterceptors = "interceptors"
)

// GatewayFault reports whether the gateway, or something that it needs, does not work.
// Such refusals are logged.
func (e *Error) GatewayFault() bool {
	switch e.Kind {
	case KindInternal, "policy_error", "budget_unavailable", "authz_unavailable", "authz_misconfigured":
		return true
	}
	return false
}

// Data is the machine-readable form of a refusal, a JSON object.
func (e *Error) Data() []byte {
	out := []byte(`{"kind":`)
	out = mcp.AppendQuote(out, e.Kind)
	out = append(out, `,"code":`...)
	out = strconv.AppendInt(out, int64(e.Code), 10)
	if e.Phase != "" {
		out = append(out, `,"phase":`...)
		out = mcp.AppendQuote(out, e.Phase)
	}
	if e.RetryAfter > 0 {
		out = append(out, `,"retry_after_ms":`...)
		out = strconv.AppendInt(out, e.RetryAfter.Milliseconds(), 10)
	}
	if e.Limit > 0 {
		out = append(out, `,"limit":`...)
		out = strconv.AppendInt(out, e.Limit, 10)
	}
	if b := e.Budget; b != nil {
		out = appendBudget(out, b)
	}
	if e.Approval != "" {
		out = append(out, `,"approval":`...)
		out = mcp.AppendQuote(out, e.Approval)
	}
	if e.Partial != nil {
		out = append(append(out, `,"partial":`...), e.Partial...)
	}
	if e.Decision != "" {
		out = append(out, `,"decision_id":`...)
		out = mcp.AppendQuote(out, e.Decision)
	}
	return append(out, '}')
}

// appendBudget appends a budget's refusal.
func appendBudget(out []byte, b *budget.Refusal) []byte {
	out = mcp.AppendQuote(append(out, `,"budget":`...), b.Budget)
	out = strconv.AppendInt(append(out, `,"limit":`...), b.Limit, 10)
	out = strconv.AppendInt(append(out, `,"used":`...), b.Used, 10)
	out = mcp.AppendQuote(append(out, `,"reset_at":`...), resetAt(b))
	if b.Hint != "" {
		out = mcp.AppendQuote(append(out, `,"hint":`...), b.Hint)
	}
	return out
}

// Result is a refusal as a tool result, which a model can act on. modern is the member
// of _meta that every result of 2026-07-28 has; nil for an earlier revision.
func (e *Error) Result(modern []byte) []byte {
	out := []byte(`{`)
	if modern != nil {
		out = append(out, `"resultType":"complete",`...)
	}
	out = append(out, `"content":[{"type":"text","text":`...)
	out = mcp.AppendQuote(out, e.Text)
	if e.Partial != nil {
		out = append(out, `},{"type":"text","text":`...)
		out = mcp.AppendQuote(out, "Partial result: "+string(e.Partial))
	}
	out = append(out, `}],"isError":true,"_meta":{"`+Key+`":`...)
	out = append(out, e.Data()...)
	if modern != nil {
		out = append(append(out, ','), modern...)
	}
	return append(out, "}}"...)
}

// Fault is a refusal as a JSON-RPC error.
func (e *Error) Fault() *mcp.Error {
	return &mcp.Error{Code: e.Code, Message: e.Text, Data: e.Data()}
}
