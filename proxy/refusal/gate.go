package refusal

import (
	"fmt"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// Undecided is the refusal of a gate that could not decide. Its kind distinguishes a
// failing policy from a service that does not answer.
func Undecided(d gate.Decision) *Error {
	e := &Error{
		Kind: "policy_error", Code: CodeUnavailable, Phase: d.Phase, Protocol: true,
		Text: "The gateway cannot decide at the moment whether this is allowed.", Err: d.Err,
	}
	switch d.Reason {
	case "authz_unavailable":
		e.Kind, e.RetryAfter = d.Reason, time.Second
		e.Text = "The authorization service is unavailable, so that nothing can be allowed; try again in a moment."
	case "authz_misconfigured":
		e.Kind = d.Reason
	case "registry_unavailable":
		e.Kind, e.RetryAfter = d.Reason, time.Second
		e.Text = "The gateway's store is unavailable, so that nothing can be allowed; try again in a moment."
	}
	return e
}

// Denied is the refusal of something viewable that may not be called.
func Denied(d gate.Decision) *Error {
	return &Error{Kind: "denied", Code: CodeDenied, Phase: d.Phase, Text: "This call is not allowed: " + d.Reason + "."}
}

// Intercepted is the refusal of a call, or of its result, by an interceptor.
func Intercepted(by, reason string, result bool) *Error {
	text := "The interceptor " + by + " does not allow this call"
	if result {
		text = "The call was made, and the interceptor " + by + " holds its result back"
	}
	if reason != "" {
		text += ": " + strings.TrimSuffix(reason, ".")
	}
	text += "."
	return &Error{Kind: "denied", Code: CodeDenied, Phase: PhaseInterceptors, Text: text}
}

// InterceptorDown is the refusal of a call about which an interceptor has not decided.
func InterceptorDown(by string, err error) *Error {
	return &Error{
		Kind: "interceptor_unavailable", Code: CodeUnavailable, Phase: PhaseInterceptors, Err: err,
		Text: "The interceptor " + by + " has to look at this call and did not answer as it should; try again in a moment.",
	}
}

// InterceptedOtherwise is the refusal of a call that continues with other arguments than
// before.
func InterceptedOtherwise() *Error {
	return &Error{
		Kind: "denied", Code: CodeDenied, Phase: PhaseInterceptors,
		Text: "The interceptors have changed the arguments of this call otherwise than before; start a new call.",
	}
}

// Scope is the refusal of a caller that lacks a scope.
func Scope(err error) *Error {
	return &Error{
		Kind: KindScope, Code: CodeDenied, Phase: PhaseScopes, Err: err,
		Text: "This call is not allowed: " + err.Error() + ".",
	}
}

// BadArguments is the refusal of arguments that do not match the tool's schema, or the
// template of a declared tool. The text tells all problems, so that the call can be repaired at once.
func BadArguments(text string) *Error {
	return &Error{Kind: "invalid_arguments", Code: CodeArguments, Phase: "arguments", Text: text}
}

// UnknownFound is the refusal of a call by the find view of a name that does not exist
// for the caller. near are names that do and may be meant; search is the tool that
// finds others.
func UnknownFound(name string, near []string, search string) *Error {
	text := fmt.Sprintf("There is no tool %q.", name)
	if len(near) > 0 {
		text += " You may mean " + strings.Join(near, ", ") + "."
	}
	return &Error{Kind: "unknown_tool", Code: CodeArguments, Phase: "find", Text: text + " Find tools with " + search + "."}
}

// WrongCall is the refusal of a call by a tool of the find view that says something
// else of what is called. right is the tool that says the truth.
func WrongCall(name, via, right string) *Error {
	return &Error{
		Kind: "wrong_call", Code: CodeArguments, Phase: "find",
		Text: fmt.Sprintf("%s is not called by %s; nothing was done. Call it by %s, with the same arguments.", name, via, right),
	}
}

// Governed is the refusal of a call by the operator's rules or the operating mode.
// reason is one sentence without its full stop.
func Governed(reason string) *Error {
	return &Error{Kind: "governance", Code: CodeDenied, Phase: "governance", Text: "This call is not allowed: " + reason + "."}
}

// Quarantined is the refusal of a tool whose schema cannot be used to check arguments,
// or with busy, cannot yet.
func Quarantined(tool, reason string, busy bool) *Error {
	if busy {
		return &Error{
			Kind: "schema_busy", Code: CodeArguments, Phase: "arguments", RetryAfter: time.Second,
			Text: fmt.Sprintf("The schema of %s is not ready for checks yet; try again in a moment.", tool),
		}
	}
	return &Error{
		Kind: "schema_refused", Code: CodeArguments, Phase: "arguments",
		Text: fmt.Sprintf("The tool %s cannot be called: its schema was refused, because %s.", tool, reason),
	}
}

// Unfit is the refusal of a tool whose own calls do not fit the schemas of what it calls,
// before it makes any. what says which, without a full stop.
func Unfit(tool, what string) *Error {
	return &Error{
		Kind: "schema_refused", Code: CodeArguments, Phase: "arguments",
		Text: fmt.Sprintf("The tool %s cannot be called, and nothing was done: %s.", tool, what),
	}
}

// UncheckedOutput is the refusal of a tool whose results must match its output schema
// but could not be checked.
func UncheckedOutput(tool string, err error) *Error {
	return &Error{
		Kind: "schema_refused", Code: CodeDenied, Phase: "output", Err: err,
		Text: fmt.Sprintf("The tool %s was not called: its results must match its output schema, and that cannot be checked, because %v.", tool, err),
	}
}

// AuditDown is the refusal of a gateway that cannot write its audit log.
func AuditDown(err error) *Error {
	return &Error{
		Kind: "audit_unavailable", Code: CodeUnavailable, Phase: "audit", Protocol: true, Err: err,
		Text: "The gateway cannot write its audit log and therefore runs nothing.",
	}
}

// Unapproved is the refusal of a call that needs an approval which it cannot wait for.
func Unapproved(text string) *Error {
	return &Error{Kind: "approval_needed", Code: CodeApproval, Phase: "approval", Text: text}
}

// ApprovalRetry is when it is worthwhile to retry a call that waits for a person.
const ApprovalRetry = 30 * time.Second

// TooManyQuestions is the refusal of a caller with too many calls that wait for
// approval.
func TooManyQuestions(err error) *Error {
	return &Error{
		Kind: "approval_pending", Code: CodeApproval, Phase: "approval", Err: err, RetryAfter: ApprovalRetry,
		Text: "Too many of your calls wait for an approval; make this one again when some of them were answered.",
	}
}

// ApprovalDown is the refusal of a call whose approval cannot be looked up.
func ApprovalDown(err error) *Error {
	return &Error{
		Kind: "store_unavailable", Code: CodeUnavailable, Phase: "approval", Protocol: true, Err: err,
		Text: "The gateway cannot look up at the moment whether this call was approved.",
	}
}

// NotApproved is the refusal of a call that was denied, or not approved yet.
func NotApproved(a gate.Approval) *Error {
	e := &Error{Kind: "approval_denied", Code: CodeApproval, Phase: "approval", Approval: a.ID}
	switch a.State {
	case gate.ApprovalPending:
		e.Kind, e.RetryAfter = "approval_pending", ApprovalRetry
		e.Text = fmt.Sprintf("This call waits for the approval of %s (%s). Make the same call again once it has been granted.", Answerers(a.By), a.ID)
	case gate.ApprovalUsed:
		e.Kind = "approval_pending"
		e.Text = fmt.Sprintf("The approval %s was used by another call with the same arguments. Make the call again to ask for another one.", a.ID)
	case gate.ApprovalExpired:
		e.Text = fmt.Sprintf("Nobody answered in time whether this call may be made (%s).", a.ID)
	default:
		e.Text = fmt.Sprintf("This call was not approved (%s).", a.ID)
		if a.Reason != "" {
			e.Text = fmt.Sprintf("This call was not approved (%s): %s", a.ID, a.Reason)
		}
		if time.Until(a.Until) > 0 {
			e.Text = fmt.Sprintf("%s. It is not asked about again before %s.", strings.TrimSuffix(e.Text, "."), a.Until.UTC().Format(time.RFC3339))
		}
	}
	return e
}

// Answerers names those who may answer: one list of groups for each demand.
func Answerers(by [][]string) string {
	var all []string
	for _, one := range by {
		var words []string
		for _, who := range one {
			switch who {
			case gate.ByRequester:
				who = "whoever makes it"
			case gate.ByOperator:
				who = "an operator"
			default:
				who = "the group " + who
			}
			words = append(words, who)
		}
		if len(words) > 0 {
			all = append(all, strings.Join(words, " or "))
		}
	}
	if len(all) == 0 {
		return "nobody who is known"
	}
	return strings.Join(all, ", and of ")
}
