// Package refusal is the table of what a client is told when the gateway does not
// answer a call with the backend's answer: each kind with its code, its phase and its
// text, and the bytes that they become (docs/refusals.md).
package refusal

import (
	"strconv"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Error is why the gateway does not answer a call with the backend's answer. Several
// calls may share one, so that it is not changed once it is returned.
type Error struct {
	Kind       string // stable: what clients and operators may act on
	Code       int    // JSON-RPC code where the method has no isError; 1001 to 1007
	Phase      string // which part refused
	Origin     mcp.Origin
	Text       string // one sentence that a model can act on
	RetryAfter time.Duration
	Budget     *budget.Refusal
	Limit      int64  // of a rate; 0 where there is none
	Decision   string // id of the decision: the call id
	Approval   string // id of the question to people; empty for none
	Partial    []byte // what the backend had said before it was given up, a JSON object; nil for nothing
	// Unavailable makes its HTTP status, where it has one of its own, 503 and not
	// 429: the client has sent nothing too often.
	Unavailable bool
	// Protocol makes it an error even for tools: the gateway itself cannot
	// decide.
	Protocol bool
	Err      error // for the log
	// Rule is what refused and Change what would lift that, for who asks why; the
	// caller is told neither.
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

// Kinds that others act on.
const (
	// KindScope is that of a refusal that more scopes would lift. Over HTTP it is a
	// status and a challenge where the answer has not begun (2026-07-28
	// basic/authorization, Scope Challenge Handling).
	KindScope = "insufficient_scope"
	// KindRate is that of what comes too often.
	KindRate = "rate_limited"
	// KindInternal is that of a gateway that fails itself.
	KindInternal = "internal"
)

// Phases that are not phases of the gate.
const (
	PhaseScopes  = "scopes"  // what holds calls against the scopes of their callers
	PhaseResults = "results" // what looks at results
	PhaseBreaker = "breaker"
)

// Grave tells whether a refusal says that something of the gateway, or that it needs,
// does not work: the log has it then.
func (e *Error) Grave() bool {
	switch e.Kind {
	case KindInternal, "policy_error", "budget_unavailable", "authz_unavailable", "authz_misconfigured":
		return true
	}
	return false
}

// Data is the machine-readable side of a refusal, a JSON object.
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

// appendBudget appends what a budget says of its refusal.
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

// Result is a refusal as the result of a tool, which a model can act on. modern is the
// member of _meta that every result of 2026-07-28 has; nil for an earlier revision.
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

// Fault is a refusal as the error of a request.
func (e *Error) Fault() *mcp.Error {
	return &mcp.Error{Code: e.Code, Message: e.Text, Data: e.Data()}
}
