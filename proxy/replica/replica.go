// Package replica is how a gateway that is one of several finds out which of them a request
// belongs to, and what is in the ids that clients carry from one to another.
package replica

import (
	"context"
	"net/http"
	"strings"
)

// Peers are the gateways that share the database of this one, itself included. It is safe
// for concurrent use.
type Peers interface {
	// Self is the id of this gateway: 1 to 32 letters and digits.
	Self() string
	// Home returns the id of the gateway that serves what owner has begun: owner itself as
	// long as it is there, else the one that all gateways choose for the key. A gateway that
	// drains serves what settles a request under way, and nothing new.
	Home(owner, key string, settles bool) string
	// Alive reports whether a gateway is there. One that drains is.
	Alive(id string) bool
	// Forward passes a request on to a gateway and its answer back. The error is a
	// [*LostError] where nothing was answered.
	Forward(w http.ResponseWriter, r *http.Request, to string, m Message) error
}

// LostError means that another gateway did not answer a request.
type LostError struct {
	// MayHaveRun reports whether it may have got the request.
	MayHaveRun bool
	Err        error
}

// Error implements error.
func (e *LostError) Error() string {
	return "ask the gateway that a request belongs to: " + e.Err.Error()
}

// Unwrap returns what happened.
func (e *LostError) Unwrap() error { return e.Err }

type forwardedKey struct{}

// WithForwarded marks a request that another gateway has passed on. It is never passed on
// again.
func WithForwarded(ctx context.Context) context.Context {
	return context.WithValue(ctx, forwardedKey{}, true)
}

// Forwarded reports whether another gateway has passed a request on.
func Forwarded(ctx context.Context) bool { return ctx.Value(forwardedKey{}) != nil }

// Tag puts the id of a gateway before a sealed value. A client that changes it reaches a
// gateway that does not know the value.
func Tag(owner, sealed string) string {
	if owner == "" {
		return sealed
	}
	return owner + "~" + sealed
}

// Cut takes the id of the gateway off a value; owner is empty where there is none.
func Cut(value string) (owner, sealed string) {
	owner, sealed, ok := strings.Cut(value, "~")
	if !ok || owner == "" || len(owner) > 32 {
		return "", value
	}
	return owner, sealed
}
