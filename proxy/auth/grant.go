package auth

import (
	"net/http"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// maxVerdictAge bounds how long a decision about a token is reused.
const maxVerdictAge = time.Minute

// Leeway is the default for the difference between an issuer's clock and ours, in both
// directions (RFC 7519 section 4.1.4).
const Leeway = time.Minute

// Grant is an identity with its times. A stream, or anything else that outlives its
// request, must authenticate the same request again at Until, and end when the answer
// is an error or another principal.
type Grant struct {
	Identity *gate.Identity
	// Expires is when the credential expires by its own claim; zero without one. Signed
	// tokens are accepted for the leeway longer.
	Expires time.Time
	// Until is how long the answer stands; zero for as long as the configuration does,
	// as with an API key.
	Until time.Time
}

// verified is what is known of a valid token. It is shared and immutable.
type verified struct {
	identity  *gate.Identity
	expires   time.Time // zero for never
	audiences []string  // as canonicalAudience returns them
	bound     []byte    // SHA-256 of the only certificate that may use it; nil for any
	until     time.Time
}

// setUntil sets how long the answer stands: at most [maxVerdictAge], no longer than the
// token, and until the end of the leeway where only that is left.
func (v *verified) setUntil(now time.Time, leeway time.Duration) {
	v.until = now.Add(maxVerdictAge)
	if v.expires.IsZero() {
		return
	}
	end := v.expires
	if !end.After(now) {
		end = end.Add(leeway)
	}
	if end.Before(v.until) {
		v.until = end
	}
}

func (v *verified) grant() Grant {
	return Grant{Identity: v.identity, Expires: v.expires, Until: v.until}
}

// audienceRule is the check of a token's audience.
type audienceRule struct {
	anywhere []string  // audiences accepted at every endpoint, canonical
	resource *Resource // makes the endpoints audiences of their own; may be nil
}

// check checks that a token is for the endpoint of the request, and comes with the
// certificate that it is bound to. Both depend on the request, so they are checked for
// cached tokens too.
func (a audienceRule) check(r *http.Request, v *verified) error {
	if !a.admits(r, v.audiences) {
		return badCredentialf("its audience is not this endpoint")
	}
	return checkBinding(r, v.bound)
}
