package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/toolgate/toolgate/internal/arena"
	"github.com/toolgate/toolgate/internal/mcp"
)

// A Link carries messages to one server and back. It knows framing and which answer
// belongs to which request, but not the methods of the protocol. All methods are safe for
// concurrent use.
type Link interface {
	// RoundTrip sends a request and returns its answer. If the context ends first, the
	// error is its cause. [Delivered] tells of an error whether the server may have run
	// the request.
	RoundTrip(ctx context.Context, req *Request) (mcp.Message, error)
	// Send sends a notification or an answer; fields is nil where there are none.
	Send(ctx context.Context, raw []byte, fields []Field) error
	// Negotiated tells the link the revision, before notifications/initialized is sent to
	// a legacy server. Ready follows after it.
	Negotiated(version mcp.Version)
	Ready()
	// Done is closed when the link is lost. Cause then returns the reason.
	Done() <-chan struct{}
	Cause() error
	// Fail gives the link up: Done is closed, and requests end whose answer cannot come
	// any more. The first cause is kept.
	Fail(err error)
	// Close ends the link and everything that it has started. The context bounds how long
	// it waits for the server.
	Close(ctx context.Context)
}

// Session is implemented by links of a [Kind] that is Separate and has sessions in legacy
// revisions.
type Session interface {
	// HasSession tells whether the server has opened a session.
	HasSession() bool
	// HasStream tells whether the server has a stream that belongs to no request. It may
	// ask questions there.
	HasStream() bool
}

var _ Session = (*streamableLink)(nil)

// Request is one request on a link.
type Request struct {
	ID  mcp.ID
	Raw []byte // the whole message
	// Fields are transport headers of this request.
	Fields []Field
	// Arrived receives the messages before the answer that come on the stream of the
	// request or carry its progress token, in order. It is called by one goroutine at a
	// time, which may be another one. Nil drops them.
	Arrived func(mcp.Message)
	// Askable tells that the server may ask questions about this request.
	Askable bool
	// Suspended tells that the request waits for the answer of its client; nil means
	// never.
	Suspended *atomic.Bool
	// Stream marks a subscription, which stays open until either side ends it.
	Stream bool
	// Handshake marks initialize. Its answer may open a session.
	Handshake bool
	// Memory lends what a large answer lies in; nil for memory of its own.
	Memory *arena.Arena
}

// Field is a header field with its canonical name. A name may come several times.
type Field struct{ Name, Value string }

// Errors of links.
var (
	ErrClosed      = errors.New("the connection is closed")
	ErrSessionLost = errors.New("the server does not know the session any more")
	ErrTooLarge    = errors.New("the answer is larger than the limit")
	ErrNoAnswer    = invalid("the stream ended without an answer")
)

// StatusError is an HTTP status that is not an answer of the protocol.
type StatusError struct {
	Status int
	body   string // the first bytes, for a person
}

// Error implements error.
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

// LoginError is a 401 or 403, or a credential that was missing before anything was sent.
type LoginError struct {
	status int
	why    MissingError // nil if only the status is known
}

// Unwrap returns the wrapped error.
func (e *LoginError) Unwrap() error {
	if e.why == nil {
		return nil // not an interface with a nil in it
	}
	return e.why
}

// Error implements error.
func (e *LoginError) Error() string {
	if e.why != nil {
		return e.why.Error()
	}
	if e.status == http.StatusForbidden {
		return "the server refuses the configured credential (HTTP 403)"
	}
	return "the server wants a credential that it was not given (HTTP 401)"
}

// ProtocolError is an answer that violates the protocol.
type ProtocolError struct{ err error }

// Error implements error.
func (e *ProtocolError) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *ProtocolError) Unwrap() error { return e.err }

// invalid returns a [ProtocolError].
func invalid(format string, args ...any) error {
	return &ProtocolError{fmt.Errorf(format, args...)}
}

// undelivered marks an error of a request that the server cannot have run.
type undelivered struct{ err error }

// Error implements error.
func (e *undelivered) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *undelivered) Unwrap() error { return e.err }

// Undelivered marks an error of a request that the server cannot have run. See
// [Delivered].
func Undelivered(err error) error { return &undelivered{err} }

// Delivered tells whether the server may have run the request that ended with an error.
func Delivered(err error) bool {
	var u *undelivered
	return !errors.As(err, &u)
}

// IsRejection tells whether a legacy server answers an unknown request with a status. A
// nil status stands for an empty acceptance, which counts too.
func IsRejection(status *StatusError) bool {
	return status == nil || status.Status/100 == 4 && status.Status != 429
}
