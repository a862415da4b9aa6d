package model

import (
	"fmt"
	"time"
)

// Kind is what has gone wrong with a request.
type Kind string

// The kinds.
const (
	RateLimited  Kind = "rate limited"
	Overloaded   Kind = "overloaded"       // or out of order for a while
	TooLong      Kind = "context too long" // the conversation does not fit the model
	Unauthorized Kind = "unauthorized"     // the key is missing, wrong or without the right
	Refused      Kind = "refused"          // the endpoint does not take the request as it is
	BadAnswer    Kind = "bad answer"       // not in the wire format, cut short, or beyond a bound
	Timeout      Kind = "timeout"          // the endpoint, or a gateway before it, gave up
	Unreachable  Kind = "unreachable"      // no connection, or one that broke before the answer
)

// Error is a request that brought no turn.
type Error struct {
	Kind   Kind
	Status int // of HTTP; 0 where there was no answer
	// Repeat means that the same request can succeed later. What it has cost so far is lost.
	Repeat bool
	// After is how long the endpoint wants to be left alone; 0 where it does not say.
	After time.Duration
	// Usage is what the endpoint had said of the cost before it failed.
	Usage Usage
	// Detail is what the endpoint says, in one line of bounded length without the key. It
	// comes from outside and may repeat what was asked, so it is for the caller and not for
	// logs.
	Detail string
	Param  string // the member of the request that it names; likewise
	reason string
	cause  error
}

// Errorf returns an error of a kind. An error among the arguments of %w is in its chain.
func Errorf(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	repeat := kind == RateLimited || kind == Overloaded || kind == BadAnswer || kind == Timeout || kind == Unreachable
	return &Error{Kind: kind, Repeat: repeat, reason: err.Error(), cause: err}
}

// Error implements error. It says nothing of [Error.Detail].
func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("the model's endpoint answers %d: %s", e.Status, e.reason)
	}
	return "the model's endpoint: " + e.reason
}

// Unwrap returns what has caused the error.
func (e *Error) Unwrap() error { return e.cause }
