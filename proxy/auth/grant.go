package auth

import (
	"net/http"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// verdictTime is the longest that a verdict about a token is used again.
const verdictTime = time.Minute

// Leeway is how far the clocks of issuers may be from ours, in both directions
// (RFC 7519 section 4.1.4), where the options name no other time.
const Leeway = time.Minute

// Grant is an identity with its times. A stream or anything else that outlives
// its request asks the authenticator about the same request again at Until and
// ends when the answer is an error or another principal.
type Grant struct {
	Identity *gate.Identity
	// Expires is the end of the credential by its own word; zero when it names
	// none. A signed token is accepted for the leeway longer.
	Expires time.Time
	// Until is how long the verdict stands; zero for as long as the
	// configuration does, as with an API key.
	Until time.Time
}

// verified is what is known of a token that holds good. It is shared and not
// changed.
type verified struct {
	identity  *gate.Identity
	expires   time.Time // zero: never
	audiences []string  // as canonicalAudience returns them
	bound     []byte    // SHA-256 of the only certificate to use it with; nil: any
	until     time.Time
}

// settle sets how long the verdict stands: at most [verdictTime], no longer
// than the token, and until the leeway ends where only that is left.
func (v *verified) settle(now time.Time, leeway time.Duration) {
	v.until = now.Add(verdictTime)
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

// audienceRule says for whom a token must be meant.
type audienceRule struct {
	anywhere []string  // audiences good at every endpoint, canonical
	resource *Resource // nil, or the endpoints that are audiences of their own
}

// check tells whether a token is for the endpoint of the request and comes
// with the certificate that it is bound to. Both depend on the request, so
// that a verdict from the cache is checked like a new one.
func (a audienceRule) check(r *http.Request, v *verified) error {
	if !a.admits(r, v.audiences) {
		return badf("its audience is not this endpoint")
	}
	return checkBinding(r, v.bound)
}
