package spicedb

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	"github.com/sony/gobreaker/v2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error is a question that SpiceDB did not answer.
type Error struct {
	Reason   string // [ReasonUnavailable] or [ReasonMisconfigured]
	Endpoint string
	Doing    string // what was tried
	Err      error
}

// Error says what was tried, what happened and what to do.
func (e *Error) Error() string {
	return fmt.Sprintf("%s at %s: %s: %s", e.Doing, e.Endpoint, message(e.Err), advice(e.Err))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// refused tells whether the server does not take our token.
func (e *Error) refused() bool {
	code := status.Code(e.Err)
	return code == codes.PermissionDenied || code == codes.Unauthenticated
}

// errLeft marks a question whose caller did not wait for the answer, which
// says nothing about the server.
var errLeft = errors.New("the caller did not wait")

// errOverdue is the cause of a context that ends by our own deadline.
var errOverdue = errors.New("no answer in time")

// errClosed is the error after Close.
var errClosed = errors.New("the phase is closed")

// overdue is a question that was not answered in our own time.
type overdue struct {
	limit time.Duration
	err   error
}

func (o *overdue) Error() string { return fmt.Sprintf("no answer within %v", o.limit) }
func (o *overdue) Unwrap() error { return o.err }

// reasonOf classifies an error. What is not known to be our own or the
// operator's fault is the server's.
func reasonOf(err error) string {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied, codes.Unauthenticated,
		codes.Unimplemented, codes.NotFound, codes.OutOfRange:
		return ReasonMisconfigured
	default:
		return ReasonUnavailable
	}
}

// message is the error without the words that gRPC puts around it.
func message(err error) string {
	if late, ok := errors.AsType[*overdue](err); ok {
		return late.Error()
	}
	if s, ok := status.FromError(err); ok && s.Code() != codes.OK {
		return s.Message()
	}
	return err.Error()
}

// advice is what to do about an error.
func advice(err error) string {
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return fmt.Sprintf("it did not answer lately and is asked again within %v", breakerOpen)
	}
	if errors.Is(err, errClosed) || errors.Is(err, errLeft) {
		return "nothing is to be done"
	}
	if _, ok := errors.AsType[*overdue](err); ok {
		return "see whether the server and its datastore are overloaded or stuck"
	}
	switch status.Code(err) {
	case codes.PermissionDenied, codes.Unauthenticated:
		return "set the token to the server's preshared key"
	case codes.FailedPrecondition, codes.NotFound:
		return "the schema lacks a type or permission: run toolgate doctor"
	case codes.InvalidArgument, codes.OutOfRange:
		return "a caveat may want another type of value: run toolgate doctor"
	case codes.Unimplemented:
		return "see that the endpoint is a SpiceDB, and not an old one"
	default:
		return "see that the server runs, and that endpoint and TLS are set as it has them"
	}
}

// outdated tells whether a read may have failed because of the token that it
// had to be as fresh as: the server may have been given another datastore.
func outdated(err error, c *v1.Consistency) bool {
	if c.GetAtLeastAsFresh() == nil {
		return false
	}
	code := status.Code(err)
	return code == codes.InvalidArgument || code == codes.OutOfRange || code == codes.FailedPrecondition
}

// late tells whether an error is our own deadline.
func late(ctx context.Context, err error) bool {
	return errors.Is(context.Cause(ctx), errOverdue) || errors.Is(ctx.Err(), context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

// untyped tells whether the server answers that its schema does not define a type that
// it may do without. A schema without prompts or resources relates nobody to any, so
// that is a denial. Every schema has the type of tools.
func (n *names) untyped(kind string, err error) bool {
	if kind == n.Object || kind != n.Prompt && kind != n.Resource {
		return false
	}
	for _, detail := range status.Convert(err).Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if ok && info.GetReason() == v1.ErrorReason_ERROR_REASON_UNKNOWN_DEFINITION.String() &&
			info.GetMetadata()["definition_name"] == kind {
			return true
		}
	}
	return false
}

// noType is the reason of a denial for want of a type.
func noType(kind string) string { return "the schema defines no type " + kind }
