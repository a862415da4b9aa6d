package guard

import (
	"errors"

	"github.com/toolgate/toolgate/internal/mcp"
)

// verdict is what the end of a request says of the backend that it went to.
type verdict uint8

const (
	// neutral says nothing of the backend: the request was not its affair, or
	// never reached it. The zero verdict.
	neutral verdict = iota
	// healthy is an answer, whatever it says.
	healthy
	// faulted is a fault of the backend itself or of the way to it.
	faulted
	// suspect is a fault that may be of the one capability alone: silence, or an
	// error inside it.
	suspect
)

// judge classes the end of a request; every breaker and every retry goes by it.
//
// What a server made of a request that it got counts against it: a connection that
// breaks in the middle, a status of 5xx, what is no MCP; silence, because it may be
// of the one capability alone, only while nothing else is answered. What arose
// elsewhere does not. A loss of the connection before anything was sent is neutral:
// the backend's own state says so (reconnecting), it already fails fast, and it is
// reached again without anybody's leave. So are refusals of what was asked (any 4xx
// status), of who asked (credentials), and of when (429, or 503 with Retry-After),
// full queues, cancelled requests and answers that are only too large. What a tool
// says of itself (isError) and every JSON-RPC error but an internal one are answers
// like any other.
func judge(answer *mcp.Answer, err error) verdict {
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
