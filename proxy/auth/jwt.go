package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// tokenBytes bounds the length of a token.
const tokenBytes = 16 << 10

// defaultCache is how many decisions are cached.
const defaultCache = 10000

// JWTOptions configure a [JWT]. Zero times and sizes stand for the defaults.
type JWTOptions struct {
	// Issuers must be at least one, without duplicates.
	Issuers []Issuer
	// Resource makes the identifier of each endpoint an audience that is accepted only
	// there; nil does not. An issuer needs this or Audiences.
	Resource *Resource
	// Cooldown is the shortest time between two fetches of an issuer's keys; 30 s. Keys
	// older than Refresh are fetched again before a token is verified; 10 min. If that
	// fails, they are used until they are older than Stale; 24 h.
	Cooldown, Refresh, Stale time.Duration
	// Cache is how many verified tokens are cached, each until its end and 60 s at
	// most; 10000.
	Cache int
	// Transport sends the requests to issuers; nil for one with limits of its own. It
	// must be safe for concurrent use.
	Transport http.RoundTripper
}

// JWT authenticates tokens that known issuers have signed (RFC 7519, RFC 9068),
// following RFC 8725 and OAuth 2.1 section 5.2. The zero JWT, and nil, refuse everyone.
// It is safe for concurrent use.
type JWT struct {
	issuers map[string]*issuer // by iss
	cache   tokenCache[*verified]
	fetch   *fetcher
}

type issuer struct {
	Issuer
	audience audienceRule
	keys     *keySet
}

// NewJWT returns the authenticator. It sends no requests: keys are fetched when they
// are needed, or by [JWT.Prime]. The caller must close it.
func NewJWT(o JWTOptions) (*JWT, error) {
	if len(o.Issuers) == 0 {
		return nil, errors.New("signed tokens need at least one issuer")
	}
	j := &JWT{
		issuers: make(map[string]*issuer, len(o.Issuers)),
		cache:   tokenCache[*verified]{limit: cmp.Or(max(o.Cache, 0), defaultCache)},
		fetch:   newFetcher(o.Transport),
	}
	for _, given := range o.Issuers {
		if _, twice := j.issuers[given.Issuer]; twice {
			return nil, fmt.Errorf("the issuer %q is named twice", given.Issuer)
		}
		made, err := j.newIssuer(given, o)
		if err != nil {
			return nil, err
		}
		j.issuers[given.Issuer] = made
	}
	return j, nil
}

func (j *JWT) newIssuer(given Issuer, o JWTOptions) (*issuer, error) {
	u, err := serverURL(given.Issuer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("issuer: %w", err)
	case u.RawQuery != "" || u.ForceQuery:
		return nil, fmt.Errorf("the issuer %q must have no query", given.Issuer)
	}
	if given.JWKS != "" {
		if _, err := serverURL(given.JWKS); err != nil {
			return nil, fmt.Errorf("the keys of the issuer %q: %w", given.Issuer, err)
		}
	}
	for _, alg := range given.Algorithms {
		if methods[alg] == nil {
			return nil, fmt.Errorf("the issuer %q: the algorithm %q is not supported; use one of %v", given.Issuer, alg, slices.Sorted(maps.Keys(methods)))
		}
	}
	if len(given.Algorithms) == 0 {
		given.Algorithms = slices.Collect(maps.Keys(methods))
	}
	given.Leeway = cmp.Or(max(given.Leeway, 0), Leeway)
	rule, err := newAudienceRule(given.Issuer, given.Audience, o.Resource)
	if err != nil {
		return nil, err
	}
	return &issuer{Issuer: given, audience: rule, keys: &keySet{
		issuer: given.Issuer, address: given.JWKS, fetch: j.fetch,
		cooldown: cmp.Or(max(given.Cooldown, 0), max(o.Cooldown, 0), defaultCooldown),
		refresh:  cmp.Or(max(o.Refresh, 0), defaultRefresh),
		stale:    cmp.Or(max(o.Stale, 0), defaultStale),
		inFlight: newCallGroup[struct{}](1, lookupTime),
	}}, nil
}

func newAudienceRule(issuer string, audiences []string, resource *Resource) (audienceRule, error) {
	if slices.Contains(audiences, "") {
		return audienceRule{}, fmt.Errorf("the issuer %q has an empty audience", issuer)
	}
	if len(audiences) == 0 && resource == nil {
		return audienceRule{}, fmt.Errorf("the issuer %q needs an audience: its tokens for other services would be accepted without", issuer)
	}
	return audienceRule{anywhere: canonicalAudiences(audiences), resource: resource}, nil
}

// Authenticate implements the proxy's Authenticator.
func (j *JWT) Authenticate(r *http.Request) (*gate.Identity, error) {
	g, err := j.Identify(r)
	return g.Identity, err
}

// Identify returns the identity of a request's bearer token. Errors are those of
// package gate and [ErrUnavailable].
func (j *JWT) Identify(r *http.Request) (Grant, error) {
	token, err := bearer(r)
	if err != nil {
		return Grant{}, err
	}
	g, _, err := j.identify(r, token)
	return g, err
}

// identify also reports whether the token is this authenticator's: signed, and from a
// known issuer. No other authenticator is asked about such a token, whatever the
// decision.
func (j *JWT) identify(r *http.Request, token string) (g Grant, mine bool, err error) {
	if j == nil || len(j.issuers) == 0 {
		return Grant{}, false, badCredentialf("no issuer is known")
	}
	key, now := keyOf(token), time.Now()
	if v, ok := j.cache.get(key, now); ok {
		if err := j.issuers[v.identity.Issuer].audience.check(r, v); err != nil {
			return Grant{}, true, err
		}
		return v.grant(), true, nil
	}
	t, err := parseCompact(token)
	if err != nil {
		return Grant{}, false, badCredentialf("%v", err)
	}
	from, ok := j.issuers[t.issuer]
	if !ok {
		return Grant{}, false, badCredentialf("its issuer is not known")
	}
	v, err := from.verify(r, t, key, now)
	if err != nil {
		return Grant{}, true, err
	}
	v.setUntil(now, from.Leeway)
	j.cache.put(key, v, v.until)
	return v.grant(), true, nil
}

// verify verifies a token. The signature comes last, so that a token that is refused
// anyway needs no key.
func (i *issuer) verify(r *http.Request, t *compactToken, key tokenKey, now time.Time) (*verified, error) {
	if err := t.checkHeader(i.Algorithms); err != nil {
		return nil, err
	}
	expires, err := checkTimes(t.claims, now, i.Leeway, true)
	if err != nil {
		return nil, err
	}
	audiences, err := audienceClaim(t.claims)
	if err != nil {
		return nil, err
	}
	bound, err := bindingClaim(t.claims)
	if err != nil {
		return nil, err
	}
	id, err := i.Claims.identity(t.issuer, credentialOf("jwt", t.claims), key, t.claims)
	if err != nil {
		return nil, badCredentialf("%v", err)
	}
	v := &verified{identity: id, expires: expires, audiences: audiences, bound: bound}
	if err := i.audience.check(r, v); err != nil {
		return nil, err
	}
	return v, i.checkSignature(r.Context(), t)
}

// checkSignature verifies the signature with the issuer's keys. If none matches, the
// keys may have been replaced, with the same key id or none, and are fetched again.
func (i *issuer) checkSignature(ctx context.Context, t *compactToken) error {
	keys, err := i.keys.find(ctx, t.alg, t.kid)
	if err != nil {
		return err
	}
	if t.signedBy(keys) {
		return nil
	}
	if err := i.keys.renew(ctx); err != nil && t.kid == "" {
		return err
	}
	if keys, _ := i.keys.cachedKeys(t.alg, t.kid); t.signedBy(keys) {
		return nil
	}
	return badCredentialf("its signature is wrong")
}

func (t *compactToken) signedBy(keys []publicKey) bool {
	return slices.ContainsFunc(keys, func(k publicKey) bool {
		return methods[t.alg].Verify(t.signed, t.signature, k.key) == nil
	})
}

// credentialOf names a token in audit entries: by its id, if it has a sensible one.
func credentialOf(kind string, claims map[string]any) string {
	if id, err := text("jti", claims["jti"]); err == nil && id != "" && len(id) <= 128 {
		return kind + ":" + id
	}
	return kind
}

// Prime fetches the keys of all issuers without any, and returns the joined errors.
// Calling it is optional.
func (j *JWT) Prime(ctx context.Context) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(j.issuers)) {
		keys := j.issuers[name].keys
		if keys.status().Fetched.IsZero() {
			errs = append(errs, keys.renew(ctx))
		}
	}
	return errors.Join(errs...)
}

// Status returns the state of each issuer's keys, sorted by issuer. It does not wait.
func (j *JWT) Status() []IssuerStatus {
	var out []IssuerStatus
	for _, name := range slices.Sorted(maps.Keys(j.issuers)) {
		out = append(out, j.issuers[name].keys.status())
	}
	return out
}

// Forget clears the cached decisions; each token is verified again.
func (j *JWT) Forget() { j.cache.clear() }

// Close ends requests under way, waits for them, and clears the cache. Tokens whose key
// is not cached get [ErrUnavailable] from then on.
func (j *JWT) Close() {
	for _, i := range j.issuers {
		i.keys.inFlight.close()
	}
	if j.fetch != nil {
		j.fetch.close()
	}
	j.Forget()
}
