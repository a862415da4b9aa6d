package auth

import (
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/loopback"
)

// bearer returns the token of the Authorization header (RFC 6750 section 2.1). There
// must be exactly one header with one scheme and one token of a sensible length. Tokens
// in the query or a form are never read.
func bearer(r *http.Request) (string, error) {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return "", gate.ErrNoCredential
	}
	if len(values) > 1 {
		return "", gate.ErrBadCredential
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || len(token) > tokenBytes || !plainToken(token) {
		return "", gate.ErrBadCredential
	}
	return token, nil
}

// plainToken reports whether s could be a credential of any issuer: visible ASCII, in
// one piece, not a list.
func plainToken(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == ',' {
			return false
		}
	}
	return s != ""
}

// Loopback authenticates everyone on this machine as [gate.Local]. It refuses requests
// that came through another proxy, because their true origin is unknown.
type Loopback struct{}

var forwarding = [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// Authenticate implements the proxy's Authenticator.
func (Loopback) Authenticate(r *http.Request) (*gate.Identity, error) {
	if !loopback.Address(r.RemoteAddr) {
		return nil, gate.ErrForbidden
	}
	for _, name := range forwarding {
		if _, ok := r.Header[name]; ok {
			return nil, gate.ErrForbidden
		}
	}
	return local, nil
}

var local = gate.NewIdentity(gate.Identity{Principal: gate.Local})
