package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/toolgate/toolgate/internal/mcp"
)

// A Link carries messages to one server and back. It knows framing and
// correlation, not the protocol's methods. All methods are safe for concurrent
// use.
type Link interface {
	// RoundTrip sends a request and returns its answer. The error is the cause of
	// the context where that ended first. [Delivered] tells of an error whether the
	// server may have run the request.
	RoundTrip(ctx context.Context, req *Request) (mcp.Message, error)
	// Send sends a notification or an answer; header is nil where there is none.
	Send(ctx context.Context, raw []byte, header http.Header) error
	// Negotiated tells the link the revision, before a legacy server is told that the
	// handshake is over; ready follows after that.
	Negotiated(version mcp.Version)
	Ready()
	// Done is closed when the link is lost; cause then tells why.
	Done() <-chan struct{}
	Cause() error
	// Fail gives the link up: done is closed, and what is in flight ends where
	// its answer cannot come any more. The first cause is kept.
	Fail(err error)
	// Close ends the link and everything it started, within the context.
	Close(ctx context.Context)
}

// Session is implemented by links of a kind with a channel for each request whose
// legacy revisions may have a session.
type Session interface {
	// HasSession tells whether the server has opened one.
	HasSession() bool
	// HasStream tells whether the server has a stream that belongs to no request, on
	// which it may ask.
	HasStream() bool
}

// Request is one request on a link.
type Request struct {
	ID     mcp.ID
	Raw    []byte      // the whole message
	Header http.Header // transport headers of this request; nil when none
	// Arrived receives the messages that come on the request's own stream, or
	// that carry its progress token, before the answer, in order. They may
	// come from another goroutine, but one at a time. Nil drops them.
	Arrived func(mcp.Message)
	// Askable tells that the server may ask questions about this request.
	Askable bool
	// Suspended tells that the request waits for the answer of its client; nil is never.
	Suspended *atomic.Bool
	// Stream marks a subscription, which stays open until either side ends it.
	Stream bool
	// Handshake marks initialize, whose answer may open a session.
	Handshake bool
}

// Errors of links.
var (
	ErrClosed      = errors.New("the connection is closed")
	ErrSessionLost = errors.New("the server does not know the session any more")
	ErrTooLarge    = errors.New("the answer is larger than the limit")
	ErrNoAnswer    = invalid("the stream ended without an answer")
)

// StatusError is an HTTP status that is no answer of the protocol.
type StatusError struct {
	Status int
	body   string // the first bytes, for a person
}

func (e *StatusError) Error() string {
	text := "HTTP " + http.StatusText(e.Status)
	if http.StatusText(e.Status) == "" {
		text = "an unknown HTTP status"
	}
	if e.body != "" {
		text += ": " + e.body
	}
	return text
}

// LoginError is a 401 or 403, or a credential that is missing before anything is
// sent.
type LoginError struct {
	status int
	why    MissingError // nil where nothing is known but the status
}

func (e *LoginError) Unwrap() error {
	if e.why == nil {
		return nil // no interface around a nil
	}
	return e.why
}

func (e *LoginError) Error() string {
	if e.why != nil {
		return e.why.Error()
	}
	if e.status == http.StatusForbidden {
		return "the server refuses the configured credential (HTTP 403)"
	}
	return "the server wants a credential that it was not given (HTTP 401)"
}

// ProtocolError is an answer that is none of the protocol.
type ProtocolError struct{ err error }

func (e *ProtocolError) Error() string { return e.err.Error() }
func (e *ProtocolError) Unwrap() error { return e.err }

// invalid returns a [ProtocolError].
func invalid(format string, args ...any) error {
	return &ProtocolError{fmt.Errorf(format, args...)}
}

// undelivered marks an error of a request that the server cannot have run.
type undelivered struct{ err error }

func (e *undelivered) Error() string { return e.err.Error() }
func (e *undelivered) Unwrap() error { return e.err }

// Undelivered marks an error of a request that the server cannot have run.
func Undelivered(err error) error { return &undelivered{err} }

// Delivered tells whether the server may have run the request that ended with an
// error.
func Delivered(err error) bool {
	var u *undelivered
	return !errors.As(err, &u)
}

// IsRejection tells whether a status is how a legacy server turns an unknown
// request down. A nil status is an empty acceptance, which is one too.
func IsRejection(status *StatusError) bool {
	return status == nil || status.Status/100 == 4 && status.Status != 429
}
