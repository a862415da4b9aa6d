package proxy

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// This file renders every refusal (DESIGN 13). A refusal is classed once, as a
// [refusal.Error] or an [mcp.Error], and becomes bytes here alone.

// response is the answer to one request before it has an id.
type response struct {
	result    []byte
	fault     *mcp.Error
	silent    bool           // the request was cancelled: nothing is answered
	challenge *authChallenge // how it is answered over HTTP where that has not begun; nil as all else
}

func errorResponse(e *mcp.Error) response { return response{fault: e} }

// httpStatus is the status of an answer to a modern request (2026-07-28
// streamable HTTP): malformed requests 400, unknown methods 404, all else 200. An
// error that a server answered with is an answer as any other: the gateway knows
// the method, whatever the server says of it.
func (r *response) httpStatus() int {
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

// maxEchoedName is how much of a name a refusal repeats.
const maxEchoedName = 256

// unknown is the answer for what does not exist and for what the caller may
// not view: byte for byte the same.
func unknown(x *Exchange, kind mcp.Kind, name string) *mcp.Error {
	if len(name) > maxEchoedName {
		name = strings.ToValidUTF8(name[:maxEchoedName], "") + "..."
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

// classify turns the error of a call into a [*refusal.Error], or into the [*mcp.Error] that
// its client made. A failure of a backend becomes a refusal also where it wraps an
// [*mcp.Error]: the parser speaks of a server's answer in the words that it has for a
// client's request. The cause of an ended context stays what it is.
func classify(err error) error {
	var refused *refusal.Error
	var fault *mcp.Error
	var failure *mcp.Failure
	var early *rate.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &failure):
		return refusal.Failed(failure, err)
	case errors.As(err, &fault):
		return fault
	case errors.As(err, &early):
		return refusal.Rated(early)
	case errors.Is(err, errCancelled), errors.Is(err, errSessionEnded), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, new(*accessRevokedError)):
		return err
	}
	if unpaid := refusal.Unpaid(err); unpaid != nil {
		return unpaid
	}
	return refusal.Internal(err)
}

// outcomeOf is how a call ended that was not answered, by where its error arose.
func outcomeOf(origin mcp.Origin) audit.Outcome {
	if origin == mcp.OriginHop || origin == mcp.OriginServer {
		return audit.OutcomeError
	}
	return audit.OutcomeDenied
}

// refuse renders an error of a call for the client.
func (g *Gateway) refuse(x *Exchange, err error) response {
	switch e := classify(err).(type) { //nolint:errorlint // classify returns the very error
	case *mcp.Error:
		return errorResponse(e)
	case *refusal.Error:
		if e.Grave() {
			g.log.Error("call refused", "method", x.Message.Method, "kind", e.Kind, "err", e.Err)
		}
		fault := e.Fault()
		answer := errorResponse(fault)
		if x.Message.Method == mcp.MethodToolsCall && !e.Protocol {
			answer = response{result: e.Result(x.meta(g))}
		}
		if e.Kind == refusal.KindScope {
			answer.challenge = &authChallenge{err: e.Err, fault: fault}
		}
		return answer
	default:
		return response{silent: true}
	}
}

// meta is the member of _meta that every result for the client has; nil before
// 2026-07-28.
func (x *Exchange) meta(g *Gateway) []byte {
	if x.Era != mcp.Modern {
		return nil
	}
	return g.serverMeta
}

// panicked is the error of a call that panicked in a goroutine of its own.
func (g *Gateway) panicked(p any) error {
	g.log.Error("panic in a call", "panic", p, "stack", string(debug.Stack()))
	return mcp.Errorf(mcp.CodeInternal, "Internal error")
}

// internalError is the answer when the gateway itself fails.
func (g *Gateway) internalError(what string, err error) response {
	g.log.Error("the gateway itself fails", "doing", what, "err", err)
	return errorResponse(mcp.Errorf(mcp.CodeInternal, "Internal error"))
}

// unknownName is the answer for what does not exist for the caller, or the refusal
// of a caller who has asked for too much of that: what exists and is hidden is
// counted as what does not exist is.
func (c *call) unknownName(gate.Decision) error {
	if err := c.g.requests.Take(limit.UnknownNames, c.x.Identity.Key()); err != nil {
		return err
	}
	return unknown(c.x, c.kind, c.name)
}
