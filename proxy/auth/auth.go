package auth

import (
	"net"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/gate"
)

// bearer returns the token of the Authorization header. Exactly one header of
// exactly one scheme and one token counts; a token in the query never does.
func bearer(r *http.Request) (string, error) {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return "", gate.ErrNoCredential
	}
	if len(values) > 1 {
		return "", gate.ErrBadCredential
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" || strings.ContainsAny(token, " \t,") {
		return "", gate.ErrBadCredential
	}
	return token, nil
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
