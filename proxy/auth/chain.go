package auth

import (
	"errors"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/gate"
)

// ChainOptions are the authenticators of a [Chain]; nil ones are not configured.
type ChainOptions struct {
	Keys          *Keys
	JWT           *JWT
	Introspection *Introspection
	Certificates  *Certificates
	// Agree refuses a request whose Authorization header and client certificate name
	// different subjects or tenants. Without it the header decides alone.
	Agree bool
}

// Chain authenticates requests by the credentials that they bring. The zero Chain, and
// nil, refuse everyone. It is safe for concurrent use.
//
// An Authorization header decides alone: an invalid one is refused, whatever
// certificate comes with it. Its token is treated as
//
//   - an API key if there is such a key; a token with the prefix of toolgate's
//     keys is never sent to anybody else,
//   - a signed token if its issuer is known to JWT, whose decision is final,
//   - anything else is sent to introspection.
//
// Without the header the client certificate counts. With both, the certificate serves
// only to check bound tokens (RFC 8705), unless Agree requires that both have the same
// subject and tenant.
type Chain struct {
	options ChainOptions
}

// NewChain returns the chain. It owns its authenticators: [Chain.Close] closes them.
func NewChain(o ChainOptions) (*Chain, error) {
	switch {
	case o.Keys == nil && o.JWT == nil && o.Introspection == nil && o.Certificates == nil:
		return nil, errors.New("no way to authenticate is configured")
	case o.Agree && o.Certificates == nil:
		return nil, errors.New("nothing can agree with client certificates, which are not accepted")
	}
	return &Chain{options: o}, nil
}

// Authenticate implements the proxy's Authenticator.
func (c *Chain) Authenticate(r *http.Request) (*gate.Identity, error) {
	g, err := c.Identify(r)
	return g.Identity, err
}

// Identify returns the caller of a request, and how long the answer stands. It may be
// called again for the same request while its stream is open. Errors are those of
// package gate and [ErrUnavailable]; with an error there is no identity.
func (c *Chain) Identify(r *http.Request) (Grant, error) {
	if c == nil {
		return Grant{}, gate.ErrNoCredential
	}
	token, err := bearer(r)
	switch {
	case errors.Is(err, gate.ErrNoCredential) && c.options.Certificates != nil:
		return c.options.Certificates.Identify(r)
	case err != nil:
		return Grant{}, err
	}
	g, err := c.token(r, token)
	if err != nil {
		return Grant{}, err
	}
	if err := c.agree(r, g); err != nil {
		return Grant{}, err
	}
	return g, nil
}

func (c *Chain) token(r *http.Request, token string) (Grant, error) {
	o := &c.options
	if o.Keys != nil {
		if id := o.Keys.Lookup(token); id != nil {
			return Grant{Identity: id}, nil
		}
	}
	if strings.HasPrefix(token, keyPrefix) {
		return Grant{}, badCredentialf("there is no such API key")
	}
	g, mine, err := o.JWT.identify(r, token)
	if mine || o.Introspection == nil {
		return g, err
	}
	return o.Introspection.identify(r, token)
}

func (c *Chain) agree(r *http.Request, g Grant) error {
	if !c.options.Agree {
		return nil
	}
	cert, err := c.options.Certificates.Identify(r)
	switch {
	case errors.Is(err, gate.ErrNoCredential):
		return nil
	case err != nil:
		return err
	case cert.Identity.Subject != g.Identity.Subject || cert.Identity.Tenant != g.Identity.Tenant:
		return badCredentialf("the token and the client certificate name different callers")
	}
	return nil
}

// Keys returns the API keys, nil when there are none.
func (c *Chain) Keys() *Keys {
	if c == nil {
		return nil
	}
	return c.options.Keys
}

// Knows reports whether the chain may still accept an identity: the owner of an API key
// that still exists, or anybody of an issuer that is still accepted. Whether a token is
// valid is decided when it comes again.
func (c *Chain) Knows(id *gate.Identity) bool {
	if c == nil || id == nil {
		return false
	}
	o := &c.options
	switch {
	case id.Issuer == KeyIssuer:
		return o.Keys != nil && o.Keys.Knows(id)
	case o.JWT != nil && o.JWT.issuers[id.Issuer] != nil:
		return true
	case o.Introspection != nil && o.Introspection.options.Issuer == id.Issuer:
		return true
	default:
		return o.Certificates != nil && o.Certificates.options.Issuer == id.Issuer
	}
}

// Forget clears the cached decisions about tokens. The keys of issuers stay.
func (c *Chain) Forget() {
	if c == nil {
		return
	}
	if c.options.JWT != nil {
		c.options.JWT.Forget()
	}
	if c.options.Introspection != nil {
		c.options.Introspection.Forget()
	}
}

// Close ends requests to issuers and clears the cached decisions. Close a chain once
// its replacement is in force. Requests that still use it get [ErrUnavailable] where
// something would have to be fetched.
func (c *Chain) Close() {
	if c == nil {
		return
	}
	if c.options.JWT != nil {
		c.options.JWT.Close()
	}
	if c.options.Introspection != nil {
		c.options.Introspection.Close()
	}
}
