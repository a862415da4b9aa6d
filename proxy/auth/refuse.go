package auth

import (
	"errors"
	"fmt"

	"github.com/toolgate/toolgate/gate"
)

// ErrUnavailable means that an authorization server cannot be asked: neither the caller
// nor the token is at fault. The response is HTTP 503. Such a request is never served.
var ErrUnavailable = errors.New("the caller cannot be verified at the moment")

// ErrClock means that a token is not good at the time of this gateway. Its errors wrap
// [gate.ErrBadCredential], too.
var ErrClock = errors.New("by the clock of this gateway")

// badCredentialf returns [gate.ErrBadCredential] with the reason, for the log. A reason
// never holds the token or an unverified claim.
func badCredentialf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", gate.ErrBadCredential, fmt.Sprintf(format, args...))
}

// unavailable returns [ErrUnavailable] with its cause.
func unavailable(cause error) error {
	if errors.Is(cause, ErrUnavailable) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, cause)
}
