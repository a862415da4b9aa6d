package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// This file renders every refusal (DESIGN 13). A refusal is classed once, as a
// [Refusal] or an [mcp.Error], and becomes bytes here alone.

// Refusal is why the gateway does not answer a call with the backend's answer.
type Refusal struct {
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
func (r *Refusal) Error() string { return r.Text }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// Codes of refusals, outside the range that JSON-RPC reserves.
const (
	codeUnavailable = 1001 // authorization, policy, store, audit or backend
	codeDenied      = 1002
	codeArguments   = 1003
	codeApproval    = 1004
	codeRate        = 1005
	codeBudget      = 1006
	codeBreaker     = 1007
)

// RefusalKey is the member of _meta that holds a refusal.
const RefusalKey = "dev.toolgate/refusal"

// reply is the answer to one request before it has an id.
type reply struct {
	result []byte
	fault  *mcp.Error
	silent bool  // the request was cancelled: nothing is answered
	away   *away // how it is answered over HTTP where that has not begun; nil as all else
}

func faulty(e *mcp.Error) reply { return reply{fault: e} }

// httpStatus is the status of an answer to a modern request (2026-07-28
// streamable HTTP): malformed requests 400, unknown methods 404, all else 200. An
// error that a server answered with is an answer as any other: the gateway knows
// the method, whatever the server says of it.
func (r *reply) httpStatus() int {
	if r.fault == nil || r.fault.Origin == mcp.OriginServer {
		return http.StatusOK
	}
	switch r.fault.Code {
	case mcp.CodeParse, mcp.CodeInvalidRequest, mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	case mcp.CodeMethodNotFound:
		return http.StatusNotFound
	}
	return http.StatusOK
}

// maxEcho is how much of a name a refusal repeats.
const maxEcho = 256

// unknown is the answer for what does not exist and for what the caller may
// not view: byte for byte the same.
func unknown(x *Exchange, kind mcp.Capability, name string) *mcp.Error {
	if len(name) > maxEcho {
		name = strings.ToValidUTF8(name[:maxEcho], "") + "..."
	}
	switch kind {
	case mcp.Prompt:
		return mcp.Errorf(mcp.CodeInvalidParams, "Unknown prompt: %s", name)
	case mcp.Resource, mcp.Template:
		code := mcp.CodeInvalidParams
		if x.Era == mcp.Legacy {
			code = mcp.CodeResourceNotFound // 2025-11-25 server/resources, Error Handling
		}
		e := mcp.Errorf(code, "Unknown resource: %s", name)
		e.Data = append(append([]byte(`{"uri":`), mcp.Quote(name)...), '}')
		return e
	default:
		return mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: %s", name)
	}
}

// Undecided is the refusal of a gate that could not decide. Its kind tells a
// policy that fails from a service that does not answer.
func Undecided(d gate.Decision) *Refusal {
	r := &Refusal{
		Kind: "policy_error", Code: codeUnavailable, Phase: d.Phase, Protocol: true,
		Text: "It cannot be decided at the moment whether this is allowed.", Err: d.Err,
	}
	switch d.Reason {
	case "authz_unavailable":
		r.Kind, r.RetryAfter = d.Reason, time.Second
		r.Text = "The authorization service is unavailable, so that nothing can be allowed; try again in a moment."
	case "authz_misconfigured":
		r.Kind = d.Reason
	case "registry_unavailable":
		r.Kind, r.RetryAfter = d.Reason, time.Second
		r.Text = "The gateway's store is unavailable, so that nothing can be allowed; try again in a moment."
	}
	return r
}

// Denied is the refusal of something viewable that may not be called.
func Denied(d gate.Decision) *Refusal {
	return &Refusal{Kind: "denied", Code: codeDenied, Phase: d.Phase, Text: "This call is not allowed: " + d.Reason + "."}
}

// BadArguments is the refusal of arguments that do not fit the tool's schema. Its
// text says what is wrong with all of them, so that the call can be repaired at
// once.
func BadArguments(text string) *Refusal {
	return &Refusal{Kind: "invalid_arguments", Code: codeArguments, Phase: "arguments", Text: text}
}

// Governed is the refusal of a call by the operator's rules or the operating
// mode. The reason is one sentence without its full stop.
func Governed(reason string) *Refusal {
	return &Refusal{Kind: "governance", Code: codeDenied, Phase: "governance", Text: "This call is not allowed: " + reason + "."}
}

// Quarantined is the refusal of a tool whose schema cannot be used to check what
// it is called with; with busy, it cannot yet.
func Quarantined(tool, reason string, busy bool) *Refusal {
	if busy {
		return &Refusal{
			Kind: "schema_busy", Code: codeArguments, Phase: "arguments", RetryAfter: time.Second,
			Text: fmt.Sprintf("The schema of %s is not ready to be checked against yet; try again in a moment.", tool),
		}
	}
	return &Refusal{
		Kind: "schema_refused", Code: codeArguments, Phase: "arguments",
		Text: fmt.Sprintf("The tool %s cannot be called: its schema was refused, because %s.", tool, reason),
	}
}

// classify turns the error of a call into a [*Refusal], or into the [*mcp.Error] that
// its client made. A failure of a backend becomes a refusal also where it wraps an
// [*mcp.Error]: the parser speaks of a server's answer in the words that it has for a
// client's request. The cause of an ended context stays what it is.
func classify(err error) error {
	var refusal *Refusal
	var fault *mcp.Error
	var failure *mcp.Failure
	var early *rate.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &failure):
		return &Refusal{
			Kind: string(failure.Kind), Code: codeUnavailable, Phase: "upstream", Origin: failure.Origin,
			Text: failure.Error(), RetryAfter: failure.RetryAfter, Err: err,
		}
	case errors.As(err, &fault):
		return fault
	case errors.As(err, &early):
		return rated(early)
	case errors.Is(err, errCancelled), errors.Is(err, errSessionEnded), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, new(*grantEnded)):
		return err
	}
	if unpaid := unpaid(err); unpaid != nil {
		return unpaid
	}
	return &Refusal{
		Kind: "internal", Code: codeUnavailable, Protocol: true, Err: err,
		Text: "The gateway could not handle this call; its log says why.",
	}
}

// outcomeOf is how a call ended that was not answered, by where its error arose.
func outcomeOf(origin mcp.Origin) audit.Outcome {
	if origin == mcp.OriginHop || origin == mcp.OriginServer {
		return audit.OutcomeError
	}
	return audit.OutcomeDenied
}

// refuse renders an error of a call for the client.
func (g *Gateway) refuse(x *Exchange, err error) reply {
	switch refusal := classify(err).(type) { //nolint:errorlint // classify returns the very error
	case *mcp.Error:
		return faulty(refusal)
	case *Refusal:
		if refusal.Kind == "internal" || refusal.Kind == "policy_error" || refusal.Kind == "budget_unavailable" || strings.HasPrefix(refusal.Kind, "authz_") {
			g.log.Error("call refused", "method", x.Message.Method, "kind", refusal.Kind, "err", refusal.Err)
		}
		fault := &mcp.Error{Code: refusal.Code, Message: refusal.Text, Data: refusal.data()}
		answer := faulty(fault)
		if x.Message.Method == mcp.MethodToolsCall && !refusal.Protocol {
			answer = reply{result: g.refusedResult(x, refusal)}
		}
		if refusal.Kind == kindScope {
			answer.away = &away{err: refusal.Err, fault: fault}
		}
		return answer
	default:
		return reply{silent: true}
	}
}

// refusedResult is a tool result that a model can act on.
func (g *Gateway) refusedResult(x *Exchange, r *Refusal) []byte {
	out := []byte(`{`)
	if x.Era == mcp.Modern {
		out = append(out, `"resultType":"complete",`...)
	}
	out = append(out, `"content":[{"type":"text","text":`...)
	out = mcp.AppendQuote(out, r.Text)
	if r.Partial != nil {
		out = append(out, `},{"type":"text","text":`...)
		out = mcp.AppendQuote(out, "Partial result: "+string(r.Partial))
	}
	out = append(out, `}],"isError":true,"_meta":{"`+RefusalKey+`":`...)
	out = append(out, r.data()...)
	if x.Era == mcp.Modern {
		out = append(append(out, ','), g.serverMeta...)
	}
	return append(out, "}}"...)
}

// data is the machine-readable side of a refusal.
func (r *Refusal) data() []byte {
	out := []byte(`{"kind":`)
	out = mcp.AppendQuote(out, r.Kind)
	out = append(out, `,"code":`...)
	out = strconv.AppendInt(out, int64(r.Code), 10)
	if r.Phase != "" {
		out = append(out, `,"phase":`...)
		out = mcp.AppendQuote(out, r.Phase)
	}
	if r.RetryAfter > 0 {
		out = append(out, `,"retry_after_ms":`...)
		out = strconv.AppendInt(out, r.RetryAfter.Milliseconds(), 10)
	}
	if r.Limit > 0 {
		out = append(out, `,"limit":`...)
		out = strconv.AppendInt(out, r.Limit, 10)
	}
	if b := r.Budget; b != nil {
		out = appendBudget(out, b)
	}
	if r.Approval != "" {
		out = append(out, `,"approval":`...)
		out = mcp.AppendQuote(out, r.Approval)
	}
	if r.Partial != nil {
		out = append(append(out, `,"partial":`...), r.Partial...)
	}
	if r.Decision != "" {
		out = append(out, `,"decision_id":`...)
		out = mcp.AppendQuote(out, r.Decision)
	}
	return append(out, '}')
}

// panicked is the error of a call that panicked in a goroutine of its own.
func (g *Gateway) panicked(p any) error {
	g.log.Error("panic in a call", "panic", p, "stack", string(debug.Stack()))
	return mcp.Errorf(mcp.CodeInternal, "Internal error")
}

// broken is the answer when the gateway itself fails.
func (g *Gateway) broken(what string, err error) reply {
	g.log.Error("the gateway itself fails", "doing", what, "err", err)
	return faulty(mcp.Errorf(mcp.CodeInternal, "Internal error"))
}
