package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/auth"
)

// identities are who a gateway lets in, made of one configuration.
type identities struct {
	chain    *auth.Chain    // nil: nobody is asked who they are
	tokens   *auth.JWT      // a part of the chain; nil takes no signed tokens
	resource *auth.Resource // nil publishes nothing
	Scopes   *auth.Scopes   // nil asks for none

	auth   config.Auth // that they are made of
	listen config.Listen
}

// Authenticated tells whether callers are asked who they are.
func (i *identities) Authenticated() bool { return i.chain != nil }

// NewIdentities makes them of the settings in force. generated is the hash of
// the key made for a listener that everyone on the network reaches, empty for
// none; it counts until a way in is configured. Whoever makes them closes them.
func NewIdentities(t *config.Toolgate, generated string) (*identities, error) {
	i := &identities{auth: t.Auth, listen: t.Listen}
	keys, err := KnownKeys(t, generated)
	if err != nil {
		return nil, failure.New(failure.Config, err)
	}
	if keys == nil && !t.Authenticates() {
		return i, nil
	}
	if i.resource, err = newResource(t); err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("listen.public_url: %w", err))
	}
	o := auth.ChainOptions{Keys: keys, Agree: t.Auth.MTLS.Agree && t.Listen.TLS.ClientCA != ""}
	if o.Certificates, err = newCertificates(t); err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("auth.mtls: %w", err))
	}
	if o.JWT, err = newTokens(t, i.resource); err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("auth.jwt: %w", err))
	}
	if o.Introspection, err = newIntrospection(t, i.resource); err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("auth.introspection: %w", err))
	}
	if i.Scopes, err = newScopes(&t.Auth.Scopes); err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("auth.scopes: %w", err))
	}
	i.tokens = o.JWT
	i.chain, err = auth.NewChain(o)
	return i, failure.New(failure.Config, err)
}

// next returns the identities of other settings. Equal ones keep the keys of the
// issuers, which may not be had again at the moment, and no verdict about a
// token.
func (i *identities) next(t *config.Toolgate, generated string) (*identities, error) {
	if reflect.DeepEqual(i.auth, t.Auth) && reflect.DeepEqual(i.listen, t.Listen) {
		i.chain.Forget()
		return i, nil
	}
	return NewIdentities(t, generated)
}

// KnownKeys are the API keys of a configuration, nil when it has none.
func KnownKeys(t *config.Toolgate, generated string) (*auth.Keys, error) {
	var keys []auth.Key
	for _, k := range t.Auth.Keys {
		keys = append(keys, auth.Key{
			ID: k.ID, SHA256: k.SHA256, Subject: k.Subject, Tenant: k.Tenant, Persona: k.Persona, Groups: k.Groups, Scopes: k.Scopes, Plan: k.Plan,
		})
	}
	if generated != "" && !t.Authenticates() {
		keys = append(keys, auth.Key{ID: "generated", SHA256: generated, Subject: "generated"})
	}
	if len(keys) == 0 {
		return nil, nil
	}
	return auth.NewKeys(keys)
}

// newResource is the gateway as a protected resource, nil where no tokens are
// taken or nothing tells where clients reach it.
func newResource(t *config.Toolgate) (*auth.Resource, error) {
	if !t.TakesTokens() || t.PublicURL() == "" {
		return nil, nil
	}
	var servers []string
	for i := range t.Auth.JWT {
		servers = append(servers, t.Auth.JWT[i].Issuer)
	}
	if own := t.Auth.Introspection.Issuer; own != "" && !slices.Contains(servers, own) {
		servers = append(servers, own)
	}
	return auth.NewResource(auth.ResourceOptions{
		PublicURL: t.PublicURL(), AuthorizationServers: servers, Scopes: t.Auth.Scopes.Challenge, ScopesSupported: t.Auth.Scopes.Supported,
		Name: "toolgate",
	})
}

// audiences is the resource whose endpoints are audiences. An address that was
// only taken for the public one is none: other machines have the same.
func audiences(t *config.Toolgate, resource *auth.Resource) *auth.Resource {
	if t.Listen.PublicURL == "" {
		return nil
	}
	return resource
}

func newTokens(t *config.Toolgate, resource *auth.Resource) (*auth.JWT, error) {
	if len(t.Auth.JWT) == 0 {
		return nil, nil
	}
	o := auth.JWTOptions{Resource: audiences(t, resource)}
	for i := range t.Auth.JWT {
		own := &t.Auth.JWT[i]
		o.Issuers = append(o.Issuers, auth.Issuer{
			Issuer: own.Issuer, JWKS: own.JWKS, Audiences: own.Audience, Algorithms: own.Algorithms,
			Claims: auth.Claims(own.Claims), Leeway: own.Leeway, Cooldown: own.Cooldown,
		})
	}
	return auth.NewJWT(o)
}

func newIntrospection(t *config.Toolgate, resource *auth.Resource) (*auth.Introspection, error) {
	own := &t.Auth.Introspection
	if own.Endpoint == "" {
		return nil, nil
	}
	return auth.NewIntrospection(auth.IntrospectionOptions{
		Endpoint: own.Endpoint, ClientID: own.ClientID, ClientSecret: own.ClientSecret.Reveal(), Issuer: own.Issuer,
		Audiences: own.Audience, Resource: audiences(t, resource), Clients: own.Clients, Claims: auth.Claims(own.Claims),
	})
}

func newCertificates(t *config.Toolgate) (*auth.Certificates, error) {
	if t.Listen.TLS.ClientCA == "" {
		return nil, nil
	}
	own := &t.Auth.MTLS
	o := auth.CertificateOptions{
		Subject: auth.Field(own.Subject), Tenant: auth.Field(own.Tenant), Persona: auth.Field(own.Persona),
		Groups: auth.Field(own.Groups), Plan: auth.Field(own.Plan), Scopes: own.Scopes,
	}
	if o.Subject == "" {
		o.Subject = auth.FieldCN
	}
	return auth.NewCertificates(o)
}

// newScopes are the rules for scopes, nil when there are none.
func newScopes(s *config.Scopes) (*auth.Scopes, error) {
	if len(s.Required) == 0 {
		return nil, nil
	}
	o := auth.ScopeOptions{Hierarchy: s.Hierarchy}
	for _, rule := range s.Required {
		o.Rules = append(o.Rules, auth.ScopeRule{Match: rule.Match, Scopes: rule.Scopes})
	}
	return auth.NewScopes(o)
}

// checker is the rules as the gateway takes them: no interface around a nil.
func (i *identities) checker() proxy.ScopeChecker {
	if i.Scopes == nil {
		return nil
	}
	return i.Scopes
}

// prime fetches the keys of issuers, so that the first caller does not wait and
// an issuer that cannot be reached is known at once.
func (i *identities) prime(ctx context.Context, log *slog.Logger) {
	if i.tokens == nil {
		return
	}
	if err := i.tokens.Prime(ctx); err != nil && ctx.Err() == nil {
		log.Warn("keys of an issuer cannot be had; its tokens are refused until they can", "err", err)
	}
}

// Close ends what is under way. Nothing is let in by them any more.
func (i *identities) Close() { i.chain.Close() }

// identify asks those in force who sent a request. Those that were replaced
// meanwhile could not say.
func (in *Daemon) identify(r *http.Request) (auth.Grant, error) {
	for {
		turn := in.Swap.wait()
		now := in.Identities.Load()
		if !now.Authenticated() {
			id, err := auth.Loopback{}.Authenticate(r)
			return auth.Grant{Identity: id}, err
		}
		if g, err := now.chain.Identify(r); in.Swap.same(turn) {
			if err == nil {
				in.presented.heard(r, &g)
			}
			return g, err
		}
	}
}

// swap is the moment at which identities and the gate are replaced together:
// nobody is known by the new ones while the old gate decides. The zero value has
// replaced nothing.
type swap struct {
	mu   sync.RWMutex
	Turn atomic.Uint64 // odd while both are being replaced
}

// wait returns the turn once nothing is being replaced.
func (s *swap) wait() uint64 {
	for {
		turn := s.Turn.Load()
		if turn%2 == 0 {
			return turn
		}
		s.mu.RLock()   // held for as long as it lasts
		s.mu.RUnlock() //nolint:staticcheck // only to wait
	}
}

// same tells whether nothing was replaced since a turn.
func (s *swap) same(turn uint64) bool { return s.Turn.Load() == turn }

// do replaces both.
func (s *swap) do(replace func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Turn.Add(1)
	defer s.Turn.Add(1)
	replace()
}

// SwapTo returns what puts identities in force together with the first catalog of
// a configuration. The later ones change nobody.
func (in *Daemon) SwapTo(known *identities) func(inForce func()) {
	var done atomic.Bool
	return func(inForce func()) {
		if done.Swap(true) || in.Identities.Load() == known {
			inForce()
			return
		}
		in.Swap.do(func() {
			in.Identities.Store(known)
			inForce()
		})
	}
}

// Authenticate implements proxy.Authenticator.
func (in *Daemon) Authenticate(r *http.Request) (*gate.Identity, error) {
	g, err := in.identify(r)
	return g.Identity, err
}

// AuthenticateUntil implements proxy.Lasting.
func (in *Daemon) AuthenticateUntil(r *http.Request) (*gate.Identity, time.Time, error) {
	g, err := in.identify(r)
	return g.Identity, g.Until, err
}

// Refuse implements proxy.Resource.
func (in *Daemon) Refuse(h http.Header, r *http.Request, err error) (status int, text string) {
	refusal := in.Identities.Load().resource.Refuse(r, err)
	refusal.SetHeader(h)
	return refusal.Status, strings.ToUpper(refusal.Message[:1]) + refusal.Message[1:]
}

// Serves implements proxy.Resource.
func (in *Daemon) Serves(path string) bool { return in.Identities.Load().resource.Serves(path) }

// ServeHTTP implements proxy.Resource.
func (in *Daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := in.Identities.Load().resource
	if resource == nil {
		http.NotFound(w, r)
		return
	}
	resource.ServeHTTP(w, r)
}

// Identity returns whom a client on the local socket or stdio speaks for: the
// owner of its API key or token, or everyone on a gateway without
// authentication.
func (in *Daemon) Identity(key string) (*gate.Identity, error) {
	g, err := in.grant(key)
	return g.Identity, err
}

// grant is identity with its times. A token there is judged as one of the main
// endpoint.
func (in *Daemon) grant(key string) (auth.Grant, error) {
	if !in.Identities.Load().Authenticated() {
		return auth.Grant{Identity: gate.NewIdentity(gate.Identity{Principal: gate.Local})}, nil
	}
	if key == "" {
		return auth.Grant{}, failure.Newf(failure.Auth, "this gateway asks for an API key; set the variable TOOLGATE_API_KEY to one of those under toolgate.auth.keys (`toolgate key new` makes one), or to a token of one of its issuers")
	}
	ctx, cancel := context.WithTimeout(in.ctxOrBackground(), grantTime)
	defer cancel()
	r := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: mainEndpoint}, Header: http.Header{"Authorization": {"Bearer " + key}},
	}).WithContext(ctx)
	g, err := in.identify(r)
	switch {
	case errors.Is(err, auth.ErrUnavailable):
		return auth.Grant{}, failure.Newf(failure.Unreachable, "the token in TOOLGATE_API_KEY cannot be verified at the moment: %w", err)
	case err != nil:
		return auth.Grant{}, failure.Newf(failure.Auth, "this gateway does not know the API key in TOOLGATE_API_KEY; set it to one of those under toolgate.auth.keys (`toolgate key new` makes one), or to a token of one of its issuers that is still valid")
	}
	return g, nil
}

const (
	// mainEndpoint is where everything is served.
	mainEndpoint = "/mcp"
	// grantTime bounds what is asked about a token of a local client.
	grantTime = 15 * time.Second
)

// ctxOrBackground is the context of run, or of nothing before it.
func (in *Daemon) ctxOrBackground() context.Context {
	if in.ctx != nil {
		return in.ctx
	}
	return context.Background()
}

// whileGranted returns a context that ends when the client of a local stream is
// not let in any more. The function that it returns ends the watch and waits
// for it.
func (in *Daemon) whileGranted(ctx context.Context, key string, g auth.Grant) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	if g.Until.IsZero() {
		return ctx, cancel
	}
	ended := make(chan struct{})
	go func() { // ends with the function that is returned
		defer close(ended)
		defer cancel()
		for until := g.Until; !until.IsZero(); {
			timer := time.NewTimer(max(time.Until(until), time.Second))
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			again, err := in.grant(key)
			if err != nil || again.Identity.Key() != g.Identity.Key() {
				in.Log.Info("a local client is not let in any more", "principal", g.Identity, "err", err)
				return
			}
			until = again.Until
		}
		<-ctx.Done()
	}()
	return ctx, func() {
		cancel()
		<-ended
	}
}
