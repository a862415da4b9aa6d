package auth

import (
	"net"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/gate"
)

// bearer returns the token of the Authorization header (RFC 6750 section 2.1).
// Exactly one header of exactly one scheme and one token of a sensible length
// counts; a token in the query or a form never does.
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

// plainToken tells whether s consists of what the credentials of any issuer
// consist of: visible ASCII, in one piece and no list.
func plainToken(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == ',' {
			return false
		}
	}
	return s != ""
}

// Loopback accepts everyone on this machine as [gate.Local]. Requests that came
// through another proxy are refused: their true origin is not known.
type Loopback struct{}

var forwarding = [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// Authenticate implements the proxy's Authenticator.
func (Loopback) Authenticate(r *http.Request) (*gate.Identity, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return nil, gate.ErrForbidden
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
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
