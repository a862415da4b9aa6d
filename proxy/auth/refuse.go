package auth

import (
	"errors"
	"fmt"

	"github.com/toolgate/toolgate/gate"
)

// ErrUnavailable is returned when whoever vouches for callers cannot be asked:
// neither the caller nor the token is at fault. It is answered with HTTP 503.
// A request is never served because of it.
var ErrUnavailable = errors.New("the caller cannot be verified at the moment")

// badf is [gate.ErrBadCredential] with the reason, for the log. A reason never
// holds the token or a claim that was not checked.
func badf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", gate.ErrBadCredential, fmt.Sprintf(format, args...))
}

// unavailable is [ErrUnavailable] with its cause.
func unavailable(cause error) error {
	if errors.Is(cause, ErrUnavailable) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, cause)
}
