package guard

import (
	"errors"

	"github.com/toolgate/toolgate/internal/mcp"
)

// verdict is what the end of a request tells about its backend.
type verdict uint8

const (
	// neutral tells nothing about the backend: the request was not its fault, or never
	// reached it. It is the zero verdict.
	neutral verdict = iota
	// healthy is a response, whatever it says.
	healthy
	// faulted is a fault of the backend itself or of the connection to it.
	faulted
	// suspect is a fault that may concern only the one capability: no response in time,
	// or an error inside it.
	suspect
)

// classify decides what the end of a request tells about its backend. Breakers and
// retries depend on it.
//
// These count against the backend, because it had the request: a connection that breaks
// in the middle, a 5xx status, a response that is not MCP. Silence may concern only the
// one capability, so it counts only while nothing else is answered. A connection that
// is lost before anything was sent is neutral: the backend's state says so
// (reconnecting), it fails fast already, and it reconnects by itself. Also neutral are
// refusals of the request (4xx), of the caller (credentials) and of the moment (429, or
// 503 with Retry-After), full queues, cancelled requests and results that are only too
// large. A tool's own error (isError) and every JSON-RPC error except an internal one
// are responses like any other.
func classify(answer *mcp.Answer, err error) verdict {
	var failure *mcp.Failure
	switch {
	case err == nil && answer.Fault != nil && answer.Fault.Code == mcp.CodeInternal:
		return suspect
	case err == nil:
		return healthy
	case !errors.As(err, &failure), failure.Origin != mcp.OriginServer, failure.Kind == mcp.FailTooLarge:
		return neutral
	case failure.Kind == mcp.FailTimeout:
		return suspect
	}
	return faulted
}
