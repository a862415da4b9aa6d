package auth

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// Times and sizes of introspection.
const (
	refusalTime   = 5 * time.Second // how long a refused token is cached
	refusalCache  = 1000
	introspectMax = 32 // concurrent requests
)

// IntrospectionOptions configure an [Introspection].
type IntrospectionOptions struct {
	// IntrospectionSettings are the operator's. Endpoint and Issuer are required, and
	// Audience or Resource; an answer without an audience refuses the token.
	IntrospectionSettings

	// Resource is as in [JWTOptions].
	Resource *Resource
	// Cache is how many accepted tokens are cached, each until its end and 60 s at
	// most; 10000. The last 1000 refused ones are cached for 5 s.
	Cache int
	// Transport is as in [JWTOptions].
	Transport http.RoundTripper
}

// Introspection authenticates tokens by asking their issuer about each (RFC 7662). The
// zero Introspection, and nil, refuse everyone. It is safe for concurrent use.
type Introspection struct {
	options  IntrospectionOptions
	audience audienceRule
	fetch    *fetcher
	inFlight *callGroup[*verified]
	accepted tokenCache[*verified]
	refused  tokenCache[error]
}

// NewIntrospection returns the authenticator. The caller must close it.
func NewIntrospection(o IntrospectionOptions) (*Introspection, error) {
	if _, err := serverURL(o.Endpoint); err != nil {
		return nil, fmt.Errorf("introspection endpoint: %w", err)
	}
	switch {
	case o.ClientID == "" || o.ClientSecret.Reveal() == "":
		return nil, errors.New("introspection needs a client id and a client secret: an endpoint that answers anyone tells everyone about tokens")
	case o.Issuer == "":
		return nil, errors.New("introspection needs the issuer of the tokens: it is a part of who their subjects are")
	case o.Issuer == KeyIssuer || o.Issuer == CertificateIssuer || o.Issuer == gate.Local.Issuer:
		return nil, fmt.Errorf("the issuer %q is toolgate's own", o.Issuer)
	case o.Clients != nil && len(o.Clients) == 0:
		return nil, errors.New("an empty list of clients lets nobody's token count; give none for all of them")
	}
	rule, err := newAudienceRule(o.Issuer, o.Audience, o.Resource)
	if err != nil {
		return nil, err
	}
	return &Introspection{
		options:  o,
		audience: rule,
		fetch:    newFetcher(o.Transport),
		inFlight: newCallGroup[*verified](introspectMax, fetchTime),
		accepted: tokenCache[*verified]{limit: cmp.Or(max(o.Cache, 0), defaultCache)},
		refused:  tokenCache[error]{limit: refusalCache},
	}, nil
}

// Authenticate implements the proxy's Authenticator.
func (x *Introspection) Authenticate(r *http.Request) (*gate.Identity, error) {
	g, err := x.Identify(r)
	return g.Identity, err
}

// Identify returns the identity of a request's bearer token. Errors are those of
// package gate, and [ErrUnavailable] without a usable response.
func (x *Introspection) Identify(r *http.Request) (Grant, error) {
	token, err := bearer(r)
	if err != nil {
		return Grant{}, err
	}
	return x.identify(r, token)
}

func (x *Introspection) identify(r *http.Request, token string) (Grant, error) {
	if x == nil || x.inFlight == nil {
		return Grant{}, badCredentialf("nobody can be asked about it")
	}
	key := keyOf(token)
	v, ok, err := x.cached(key)
	if err == nil && !ok {
		v, err = x.ask(r.Context(), key, token)
	}
	if err != nil {
		return Grant{}, err
	}
	if err := x.audience.check(r, v); err != nil {
		return Grant{}, err
	}
	return v.grant(), nil
}

func (x *Introspection) cached(key tokenKey) (*verified, bool, error) {
	now := time.Now()
	if v, ok := x.accepted.get(key, now); ok {
		return v, true, nil
	}
	if err, ok := x.refused.get(key, now); ok {
		return nil, true, err
	}
	return nil, false, nil
}

// ask asks about a token, once for all requests that carry it.
func (x *Introspection) ask(ctx context.Context, key tokenKey, token string) (*verified, error) {
	return x.inFlight.start(string(key[:]), nil, func(ctx context.Context) (*verified, error) {
		if v, ok, err := x.cached(key); ok { // cached by a call that has just ended
			return v, err
		}
		return x.introspect(ctx, key, token)
	}).wait(ctx)
}

// introspect asks about a token and caches the decision. Failed requests are not
// cached.
func (x *Introspection) introspect(ctx context.Context, key tokenKey, token string) (*verified, error) {
	answer, err := x.request(ctx, token)
	if err != nil {
		return nil, unavailable(fmt.Errorf("introspection: %w", err))
	}
	now := time.Now()
	v, err := x.checkAnswer(key, answer, now)
	if err != nil {
		x.refused.put(key, err, now.Add(refusalTime))
		return nil, err
	}
	v.setUntil(now, Leeway)
	x.accepted.put(key, v, v.until)
	return v, nil
}

// request sends the request of RFC 7662 section 2.1 and returns the response. A
// response must have a boolean "active".
func (x *Introspection) request(ctx context.Context, token string) (map[string]any, error) {
	o := &x.options
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	secret := url.QueryEscape(o.ClientID) + ":" + url.QueryEscape(o.ClientSecret.Reveal())
	data, err := x.fetch.send(ctx, http.MethodPost, o.Endpoint, strings.NewReader(form.Encode()), http.Header{
		"Content-Type":  {"application/x-www-form-urlencoded"},
		"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(secret))},
		// Sending the request twice does no harm. This header makes net/http retry it
		// on another connection when a kept one was closed. The header is not sent.
		"Idempotency-Key": {},
	})
	if err != nil {
		return nil, err
	}
	answer, err := decodeObject(data)
	if err != nil {
		return nil, fmt.Errorf("POST %s: %w", o.Endpoint, err)
	}
	if _, ok := answer["active"].(bool); !ok {
		return nil, fmt.Errorf("POST %s: the answer does not say whether the token is active", o.Endpoint)
	}
	return answer, nil
}

// checkAnswer validates a response (RFC 7662 section 2.2).
func (x *Introspection) checkAnswer(key tokenKey, answer map[string]any, now time.Time) (*verified, error) {
	if answer["active"] != true {
		return nil, badCredentialf("its issuer says that it is not active")
	}
	if issuer, ok, err := member(answer, "iss"); err != nil || ok && issuer != x.options.Issuer {
		return nil, badCredentialf("it is of another issuer")
	}
	if err := x.checkKind(answer); err != nil {
		return nil, err
	}
	expires, err := checkTimes(answer, now, Leeway, false)
	if err != nil {
		return nil, err
	}
	audiences, err := audienceClaim(answer)
	if err != nil {
		return nil, err
	}
	bound, err := bindingClaim(answer)
	if err != nil {
		return nil, err
	}
	id, err := x.options.Claims.identity(x.options.Issuer, credentialOf("introspection", answer), key, answer)
	if err != nil {
		return nil, badCredentialf("%v", err)
	}
	return &verified{identity: id, expires: expires, audiences: audiences, bound: bound}, nil
}

// checkKind refuses active tokens that are not bearer tokens of an accepted client:
// refresh tokens, which some servers mark by token_use, and tokens that are bound to a
// key.
func (x *Introspection) checkKind(answer map[string]any) error {
	kind, ok, err := member(answer, "token_type")
	if err != nil || ok && !strings.EqualFold(kind, "Bearer") && kind != "access_token" {
		return badCredentialf("it is not a bearer token")
	}
	use, ok, err := member(answer, "token_use")
	if err != nil || ok && use != "access_token" && use != "access" {
		return badCredentialf("it is not an access token")
	}
	client, ok, err := member(answer, "client_id")
	if err != nil || x.options.Clients != nil && (!ok || !slices.Contains(x.options.Clients, client)) {
		return badCredentialf("its client is not accepted here")
	}
	return nil
}

// Forget clears the cache; each token is asked about again.
func (x *Introspection) Forget() {
	x.accepted.clear()
	x.refused.clear()
}

// Close ends requests under way, waits for them, and clears the cache. Every token gets
// [ErrUnavailable] from then on.
func (x *Introspection) Close() {
	if x.inFlight == nil {
		return
	}
	x.inFlight.close()
	x.fetch.close()
	x.Forget()
}
