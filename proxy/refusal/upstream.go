package refusal

import (
	"fmt"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Failed is the refusal of a call whose backend failed.
func Failed(failure *mcp.Failure, err error) *Error {
	return &Error{
		Kind: string(failure.Kind), Code: CodeUnavailable, Phase: "upstream", Origin: failure.Origin,
		Text: failure.Error(), RetryAfter: failure.RetryAfter, Err: err,
	}
}

// FailedWithPartial is the refusal of a call whose backend failed after it had sent
// messages, partial as a JSON object.
func FailedWithPartial(failure *mcp.Failure, err error, said []byte) *Error {
	return &Error{
		Kind: string(failure.Kind), Code: CodeUnavailable, Phase: "upstream", Origin: failure.Origin, Err: err, Partial: said,
		Text: failure.Error() + " What it had reported until then is below.",
	}
}

// Internal is the refusal of a call that the gateway itself cannot handle.
func Internal(err error) *Error {
	return &Error{
		Kind: KindInternal, Code: CodeUnavailable, Protocol: true, Err: err,
		Text: "The gateway could not handle this call; its log says why.",
	}
}

// BreakerOpen is the refusal by an open breaker: that of a server, or of one tool of
// it.
func BreakerOpen(server string, tool bool, wait time.Duration, words string) *Error {
	text := fmt.Sprintf("The server %s keeps failing and is not called for now; try again in %s, or go on without it.", server, words)
	if tool {
		text = fmt.Sprintf("This tool of the server %s keeps failing and is not called for now; try again in %s, or go on without it.", server, words)
	}
	return &Error{
		Kind: "breaker_open", Code: CodeBreaker, Phase: PhaseBreaker, Text: text, RetryAfter: wait,
		Err: &mcp.Failure{Kind: mcp.FailUnavailable, Server: server, Reason: "the circuit breaker is open"},
	}
}

// RetryLater is the refusal of a call of a server that asked to be called later.
func RetryLater(server string, wait time.Duration, words string) *Error {
	return &Error{
		Kind: string(mcp.FailBusy), Code: CodeUnavailable, Phase: PhaseBreaker, RetryAfter: wait,
		Text: fmt.Sprintf("The server %s has asked to be called less often; try again in %s.", server, words),
		Err:  &mcp.Failure{Kind: mcp.FailBusy, Server: server, Reason: "the server asked to be called later"},
	}
}

// BadAnswer is the refusal of a response that violates the protocol, or that the client
// cannot use. text continues a sentence after the name of the server.
func BadAnswer(server, text string) *Error {
	return &Error{
		Kind: "upstream_error", Code: CodeUnavailable, Phase: "upstream", Origin: mcp.OriginServer,
		Text: "The server " + server + " " + text,
	}
}

// QuestionRefused is the refusal of a call whose server asked something that nobody
// will answer. text continues a sentence after the name of the server.
func QuestionRefused(server, text string) *Error {
	return &Error{
		Kind: "question_refused", Code: CodeUnavailable, Phase: "upstream", Origin: mcp.OriginServer,
		Text: "The server " + server + " " + text,
	}
}

// TaskCancelled is the refusal of a call whose task its server cancelled.
func TaskCancelled(server string) *Error {
	return &Error{
		Kind: "task_cancelled", Code: CodeUnavailable, Phase: "upstream", Origin: mcp.OriginServer,
		Text: "The server " + server + " cancelled the task of this call.",
	}
}

// SignIn is the refusal of a call whose caller must first sign in to the server at an
// address.
func SignIn(server, address string, err error) *Error {
	return &Error{
		Kind: string(mcp.FailLogin), Code: CodeUnavailable, Phase: "upstream", Origin: mcp.OriginHop, Err: err,
		Text: fmt.Sprintf("You have to sign in to %s first: open %s in your browser, then make this call again.", server, address),
	}
}

// ShutDown is the refusal of a call that had not ended when the gateway shut down. It
// is no denial: the server may have done what it was asked for.
var ShutDown = &Error{
	Kind: "shutting_down", Code: CodeUnavailable, Phase: "upstream", Origin: mcp.OriginHop, RetryAfter: 5 * time.Second,
	Text: "The gateway ended before this call was answered. What the call has done so far stays done; check before you repeat it.",
}

// Lost is the refusal of the next round of a call that the gateway no longer has.
var Lost = &Error{
	Kind: "call_lost", Code: CodeUnavailable, Phase: "rounds",
	Text: "The gateway does not have this call any more: it was restarted, another one began the call, or later calls took its place. The call was not repeated; what it had done so far stays done. Begin a new call if that is wanted.",
}

// GatewayLost is the answer to a request whose gateway is gone.
func GatewayLost(mayHaveRun bool) *mcp.Error {
	text := "The gateway went away before it answered; the request may have run, so check that before you repeat it"
	if !mayHaveRun {
		text = "The gateway went away before it answered; nothing was run, and the request can be repeated"
	}
	return &mcp.Error{
		Code: CodeUnavailable, Message: text,
		Data: fmt.Appendf(nil, `{"kind":%q,"code":%d,"phase":"connection","may_have_run":%t}`, KindGatewayLost, CodeUnavailable, mayHaveRun),
	}
}

// RoundsDown is the refusal of the next round of a call when it is unknown whether the
// round was used before.
func RoundsDown(err error) *Error {
	return &Error{
		Kind: "store_unavailable", Code: CodeUnavailable, Phase: "rounds", Protocol: true, Err: err,
		Text: "The gateway cannot look up at the moment whether this answer was given before.",
	}
}

// InvalidOutput is the refusal of a result that does not match the output schema of its
// tool.
func InvalidOutput(tool string, problems []string) *Error {
	return &Error{
		Kind: "invalid_output", Code: CodeUnavailable, Phase: PhaseResults, Origin: mcp.OriginServer,
		Text: fmt.Sprintf("The tool %s was called, and answered with data that does not fit its own output schema, so that it is not passed on. "+
			"What the tool did is done; other arguments may give data that fits.\n- %s", tool, strings.Join(problems, "\n- ")),
	}
}

// ResultTooLarge is the refusal of a result that exceeds a limit. about names the limit
// in the sentence.
func ResultTooLarge(tool string, size int, about string) *Error {
	return &Error{
		Kind: "result_too_large", Code: CodeUnavailable, Phase: PhaseResults, Origin: mcp.OriginServer,
		Text: fmt.Sprintf("The result of %s has %d bytes, %s, so that it is not passed on. The call was made; what it did is done. "+
			"Ask for less, for instance by a filter or a page.", tool, size, about),
	}
}

// ResultUnsearched is the refusal of a result that is too large to be searched for
// secrets.
func ResultUnsearched(err error) *Error {
	return &Error{
		Kind: "result_too_large", Code: CodeUnavailable, Phase: PhaseResults, Origin: mcp.OriginServer, Err: err,
		Text: "The result is not passed on: " + err.Error() + ". The call was made; what it did is done. Ask for less.",
	}
}
