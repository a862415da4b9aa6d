package proxy

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/arena"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// This file renders every refusal (docs/refusals.md). A refusal is classified once, as a
// [refusal.Error] or an [mcp.Error], and becomes bytes only here.

// response is the response to one request, before it has an id.
type response struct {
	result    []byte
	rest      []byte // of a result whose beginning is shared; only lists have one
	fault     *mcp.Error
	silent    bool           // the request was cancelled: there is no response
	challenge *authChallenge // the HTTP form of the refusal, if the HTTP response has not begun; else nil
	// memory is what the result lies in, to be freed once the result is written; nil where it
	// is the collector's.
	memory *arena.Arena
	// succeeded means that the result is known not to be that of a tool that failed.
	succeeded bool
}

func errorResponse(e *mcp.Error) response { return response{fault: e} }

// httpStatus is the status of a response to a modern request (2026-07-28 streamable
// HTTP): 400 for malformed requests, 404 for unknown methods, 200 for everything else.
// An error from a server is a normal response: the gateway knows the method, whatever
// the server says.
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

// maxEchoedName bounds a name that a refusal repeats.
const maxEchoedName = 256

// unknown is the response for what does not exist and for what the caller may not view.
// Both get the same bytes.
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

// classify turns the error of a call into a [*refusal.Error], or into the [*mcp.Error]
// that its client caused. A failure of a backend is a refusal even where it wraps an
// [*mcp.Error]: the parser reports a bad response of a server in the same words as a
// bad request of a client. The cause of an ended context stays as it is.
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
	if unpaid := refusal.Uncharged(err); unpaid != nil {
		return unpaid
	}
	return refusal.Internal(err)
}

// outcomeOf returns the audit outcome of a call without a response, by the origin of
// its error.
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
		if e.GatewayFault() {
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

// meta is the member of _meta that every result for a modern client has; nil before
// 2026-07-28.
func (x *Exchange) meta(g *Gateway) []byte {
	if x.Era != mcp.Modern {
		return nil
	}
	return g.serverMeta
}

// panicked returns the error of a call that panicked in a goroutine of its own.
func (g *Gateway) panicked(p any) error {
	g.log.Error("panic in a call", "panic", p, "stack", string(debug.Stack()))
	return mcp.Errorf(mcp.CodeInternal, "Internal error")
}

// internalError is the response when the gateway itself fails.
func (g *Gateway) internalError(what string, err error) response {
	g.log.Error("internal error of the gateway", "doing", what, "err", err)
	return errorResponse(mcp.Errorf(mcp.CodeInternal, "Internal error"))
}

// unknownName is the response for what does not exist for the caller. It counts hidden
// names like missing ones, and refuses a caller with too many of them.
func (c *call) unknownName(gate.Decision) error {
	if err := c.g.requests.Take(limit.UnknownNames, c.x.Identity.Key()); err != nil {
		return err
	}
	if c.via != "" {
		return c.g.finder.unknown(c)
	}
	return unknown(c.x, c.kind, c.name)
}
