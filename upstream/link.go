package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/toolgate/toolgate/internal/mcp"
)

// A link carries messages to one server and back. It knows framing and
// correlation, not the protocol's methods. All methods are safe for concurrent
// use.
type link interface {
	// roundTrip sends a request and returns its answer.
	roundTrip(ctx context.Context, req *outgoing) (mcp.Message, error)
	// send sends a notification or an answer.
	send(ctx context.Context, raw []byte, header http.Header) error
	// negotiated tells the link what was agreed on, after the handshake.
	negotiated(version mcp.Version)
	// done is closed when the link is lost; cause then tells why.
	done() <-chan struct{}
	cause() error
	// fail gives the link up: done is closed, and what is in flight ends where
	// its answer cannot come any more. The first cause is kept.
	fail(err error)
	// close ends the link and everything it started, within the context.
	close(ctx context.Context)
}

// A dialer opens links to one server.
type dialer interface {
	// dial opens a link. inbound receives every message that belongs to no
	// request, one after the other.
	dial(ctx context.Context, inbound func(mcp.Message)) (link, error)
}

// outgoing is one request on a link.
type outgoing struct {
	id     mcp.ID
	raw    []byte      // the whole message
	header http.Header // transport headers of this request; nil when none
	// arrived receives the messages that come on the request's own stream, or
	// that carry its progress token, before the answer, in order. They may
	// come from another goroutine, but one at a time. Nil drops them.
	arrived func(mcp.Message)
	// askable tells that the server may ask questions about this request.
	askable bool
	// resting tells that the request waits for the answer of its client; nil is never.
	resting *atomic.Bool
	// stream marks a subscription, which stays open until either side ends it.
	stream bool
	// handshake marks initialize, whose answer may open a session.
	handshake bool
}

// Errors of links.
var (
	errClosed      = errors.New("the connection is closed")
	errSessionLost = errors.New("the server does not know the session any more")
	errTooLarge    = errors.New("the answer is larger than the limit")
	errNoAnswer    = invalid("the stream ended without an answer")
)

// httpError is an HTTP status that is no answer of the protocol.
type httpError struct {
	status int
	body   string // the first bytes, for a person
}

func (e *httpError) Error() string {
	text := "HTTP " + http.StatusText(e.status)
	if http.StatusText(e.status) == "" {
		text = "an unknown HTTP status"
	}
	if e.body != "" {
		text += ": " + e.body
	}
	return text
}

// loginError is a 401 or 403, or a credential that is missing before anything is
// sent.
type loginError struct {
	status int
	why    MissingError // nil where nothing is known but the status
}

func (e *loginError) Unwrap() error {
	if e.why == nil {
		return nil // no interface around a nil
	}
	return e.why
}

func (e *loginError) Error() string {
	if e.why != nil {
		return e.why.Error()
	}
	if e.status == http.StatusForbidden {
		return "the server refuses the configured credential (HTTP 403)"
	}
	return "the server wants a credential that it was not given (HTTP 401)"
}

// protocolError is an answer that is none of the protocol.
type protocolError struct{ err error }

func (e *protocolError) Error() string { return e.err.Error() }
func (e *protocolError) Unwrap() error { return e.err }

// invalid returns a protocolError.
func invalid(format string, args ...any) error {
	return &protocolError{fmt.Errorf(format, args...)}
}

// undelivered marks an error of a request that the server cannot have run.
type undelivered struct{ err error }

func (e *undelivered) Error() string { return e.err.Error() }
func (e *undelivered) Unwrap() error { return e.err }

func wasDelivered(err error) bool {
	var u *undelivered
	return !errors.As(err, &u)
}
