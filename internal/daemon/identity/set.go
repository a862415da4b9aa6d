package identity

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/auth"
)

// Set decides whom a gateway lets in, by one configuration. It is immutable, and safe
// for concurrent use. Its maker closes it.
type Set struct {
	chain    *auth.Chain    // nil: nobody is asked who they are
	tokens   *auth.JWT      // a part of the chain; nil takes no signed tokens
	resource *auth.Resource // nil publishes nothing
	Scopes   *auth.Scopes   // nil asks for none

	auth   auth.Settings // that they are made of
	listen config.Listen
}

// Authenticated tells whether callers are asked who they are.
func (i *Set) Authenticated() bool { return i.chain != nil }

// NewSet makes one of the settings in force. generated is the hash of
// the key made for a listener that everyone on the network reaches, empty for
// none; it counts until a way in is configured.
func NewSet(t *config.Toolgate, generated string) (*Set, error) {
	i := &Set{auth: t.Auth, listen: t.Listen}
	keys, err := NewKeys(t, generated)
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
	if i.Scopes, err = newScopes(t.Auth.Scopes); err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("auth.scopes: %w", err))
	}
	i.tokens = o.JWT
	i.chain, err = auth.NewChain(o)
	return i, failure.New(failure.Config, err)
}

// Next returns the set of other settings. For equal issuers it keeps their keys, which
// may be unavailable at the moment, but no verdict about a token.
func (i *Set) Next(t *config.Toolgate, generated string) (*Set, error) {
	if reflect.DeepEqual(i.auth, t.Auth) && reflect.DeepEqual(i.listen, t.Listen) {
		i.chain.Forget()
		return i, nil
	}
	return NewSet(t, generated)
}

// NewKeys returns the API keys of a configuration, nil when it has none.
func NewKeys(t *config.Toolgate, generated string) (*auth.Keys, error) {
	keys := slices.Clone(t.Auth.Keys)
	if generated != "" && !t.Authenticates() {
		keys = append(keys, auth.Key{ID: "generated", SHA256: generated, Subject: "generated"})
	}
	if len(keys) == 0 {
		return nil, nil
	}
	return auth.NewKeys(keys)
}

// newResource returns the gateway as a protected resource, nil where no tokens are
// accepted or the gateway's address is unknown.
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
		Name: "toolgate", Views: proxy.ViewPaths(),
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
	return auth.NewJWT(auth.JWTOptions{Issuers: t.Auth.JWT, Resource: audiences(t, resource)})
}

func newIntrospection(t *config.Toolgate, resource *auth.Resource) (*auth.Introspection, error) {
	if t.Auth.Introspection.Endpoint == "" {
		return nil, nil
	}
	return auth.NewIntrospection(auth.IntrospectionOptions{IntrospectionSettings: t.Auth.Introspection, Resource: audiences(t, resource)})
}

func newCertificates(t *config.Toolgate) (*auth.Certificates, error) {
	if t.Listen.TLS.ClientCA == "" {
		return nil, nil
	}
	o := auth.CertificateOptions{CertificateSettings: t.Auth.MTLS}
	o.Subject = cmp.Or(o.Subject, auth.FieldCN)
	return auth.NewCertificates(o)
}

// newScopes are the rules for scopes, nil when there are none.
func newScopes(s auth.ScopeSettings) (*auth.Scopes, error) {
	if len(s.Required) == 0 {
		return nil, nil
	}
	return auth.NewScopes(s)
}

// Checker returns the rules for scopes; the interface is nil where there are none.
func (i *Set) Checker() proxy.ScopeChecker {
	if i.Scopes == nil {
		return nil
	}
	return i.Scopes
}

// Prime fetches the keys of issuers, so that the first caller does not wait and an
// unreachable issuer is reported at once.
func (i *Set) Prime(ctx context.Context, log *slog.Logger) {
	if i.tokens == nil {
		return
	}
	if err := i.tokens.Prime(ctx); err != nil && ctx.Err() == nil {
		log.Warn("keys of an issuer cannot be had; its tokens are refused until they can", "err", err)
	}
}

// Close ends what is under way. Nothing is let in by the set any more.
func (i *Set) Close() { i.chain.Close() }

// Knows tells whether a caller may still be who they were: the key or the issuer by
// which they were known is one of the set. Without authentication nobody is known.
func (i *Set) Knows(id *gate.Identity) bool { return i.chain != nil && i.chain.Knows(id) }
