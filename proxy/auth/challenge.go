package auth

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// challengeBytes bounds the scopes in a challenge, so that every client accepts the
// header.
const challengeBytes = 2048

// retryAfter is when to retry after [ErrUnavailable].
const retryAfter = coldRetry

// Refusal is the HTTP form of an error of an authenticator or of [Scopes].
type Refusal struct {
	Status     int           // 401, 403 or 503
	Challenge  string        // of the WWW-Authenticate header; empty for none
	RetryAfter time.Duration // zero for none
	// Message is for the client. It does not tell why a token is invalid; the error
	// does, for the log.
	Message string
}

// SetHeader sets the headers of the refusal.
func (f Refusal) SetHeader(h http.Header) {
	if f.Challenge != "" {
		h.Set("WWW-Authenticate", f.Challenge)
	}
	if f.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
	}
}

// Refuse returns the response to a request that was refused with an error. A nil error
// is refused too. The challenges are those of RFC 6750 section 3 with the metadata of
// the endpoint (RFC 9728 section 5.1). A request without a token gets no error code, an
// invalid token gets invalid_token, and a token without all scopes gets one
// insufficient_scope with all scopes to request.
func (x *Resource) Refuse(r *http.Request, err error) Refusal {
	if lacking, ok := errors.AsType[*ScopeError](err); ok {
		return Refusal{
			Status:    http.StatusForbidden,
			Challenge: x.challenge(r, "insufficient_scope", lacking.requested()),
			Message:   lacking.Error(),
		}
	}
	switch {
	case errors.Is(err, gate.ErrForbidden):
		return Refusal{Status: http.StatusForbidden, Message: gate.ErrForbidden.Error()}
	case errors.Is(err, ErrUnavailable):
		return Refusal{Status: http.StatusServiceUnavailable, RetryAfter: retryAfter, Message: ErrUnavailable.Error()}
	case errors.Is(err, gate.ErrNoCredential):
		return Refusal{Status: http.StatusUnauthorized, Challenge: x.challenge(r, "", x.initialScopes()), Message: gate.ErrNoCredential.Error()}
	default:
		return Refusal{Status: http.StatusUnauthorized, Challenge: x.challenge(r, "invalid_token", x.initialScopes()), Message: gate.ErrBadCredential.Error()}
	}
}

// initialScopes returns the scopes that a client should begin with.
func (x *Resource) initialScopes() []string {
	if x == nil {
		return nil
	}
	return x.scopes
}

// challenge renders a WWW-Authenticate value. Its parts come from the configuration or
// are valid scopes, so that none can end a quoted string.
func (x *Resource) challenge(r *http.Request, code string, scopes []string) string {
	var params []string
	if code != "" {
		params = append(params, `error="`+code+`"`)
	}
	if len(scopes) > 0 {
		params = append(params, `scope="`+strings.Join(scopes, " ")+`"`)
	}
	if x != nil {
		_, metadata := x.Identifiers(r.URL.EscapedPath())
		params = append(params, `resource_metadata="`+metadata+`"`)
	}
	if len(params) == 0 {
		return "Bearer"
	}
	return "Bearer " + strings.Join(params, ", ")
}
