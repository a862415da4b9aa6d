package credential

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/upstream/oauth"
)

// Auth is how toolgate authenticates to a server that is reached by URL, as an operator
// writes it.
type Auth struct {
	// Kind of credential. static sends the headers of the entry; in oauth a person signs in; client_credentials,
	// exchange and workload get tokens from an authorization server; key is an API key that a person enters. Default:
	// static if the entry has headers, else oauth.
	Mode Mode `config:"mode" enum:"static|oauth|client_credentials|exchange|workload|key"`
	// Whose credential is used: shared is one for all callers, principal is one per caller. Default: principal if
	// callers' own tokens are exchanged, else shared.
	Per Per `config:"per" enum:"shared|principal"`
	// Authorization server at which the client is registered; no other one is used. Required with a secret, a key or an
	// assertion. Default: the first one that the server names.
	Issuer string `config:"issuer" format:"url"`
	// The OAuth client that toolgate is at the authorization server. Default: toolgate registers itself, by its metadata
	// document or dynamic registration.
	Client Client `config:"client"`
	// Scopes to request in addition to those that the server names. Default: none.
	Scopes []string `config:"scopes"`
	// Header that carries the API key. Default: Authorization.
	Header string `config:"header"`
	// Text before the API key. Default: "Bearer " for Authorization, else none.
	Prefix *string `config:"prefix"`
	// Exchanges the caller's identity for a token (RFC 8693). Required if mode is exchange.
	Exchange ExchangeSettings `config:"exchange"`
	// File with a JWT that proves toolgate's workload identity, such as a projected token of Kubernetes. It is read
	// before each token request. Required if mode is workload.
	Assertion string `config:"assertion" format:"path"`
	// DPoP, which binds tokens to a key of toolgate, so that a stolen token is useless. auto uses it if the
	// authorization server supports it, unless the server is known to accept only other tokens; required refuses unbound
	// tokens; off never uses it. Default: auto.
	DPoP Binding `config:"dpop" enum:"auto|required|off"`
	// Private networks, such as 10.0.0.0/8, from which metadata and tokens may be fetched. Default: none, or this
	// machine for a server on this machine.
	Networks []string `config:"networks"`
}

// Static is the mode of the headers of the file, which need no [Source].
const Static Mode = "static"

// Per is whose a credential is.
type Per string

// Whose they can be. The zero Per is decided by the mode.
const (
	PerShared    Per = "shared"
	PerPrincipal Per = "principal"
)

// Client is toolgate as a client of an authorization server.
type Client struct {
	// OAuth client ID. Default: the client was not registered manually.
	ID string `config:"id"`
	// OAuth client secret. Default: none; key may take its place.
	Secret secret.Text `config:"secret"`
	// PEM file with the private key that signs the client's assertions (private_key_jwt). Default: none.
	Key string `config:"key" format:"path"`
	// Key ID (kid) in the client's assertions. Default: none.
	KeyID string `config:"key_id"`
	// Authentication method of the client. Default: by its key if it has one, else the method for its secret that the
	// authorization server supports.
	Auth string `config:"auth" enum:"none|client_secret_basic|client_secret_post|private_key_jwt"`
}

// ExchangeSettings are how an identity provider trades what proves a caller.
type ExchangeSettings struct {
	// URL of the identity provider. Required.
	Issuer string `config:"issuer" format:"url"`
	// The OAuth client that toolgate is at the identity provider; its id is required. Required.
	Client Client `config:"client"`
	// What the identity provider issues: access_token is a token for the server, id_jag an assertion for the server's
	// own authorization server. Default: access_token.
	Grant string `config:"grant" enum:"access_token|id_jag"`
	// Audience of the access token. Default: none; the request names only the server's URL.
	Audience string `config:"audience"`
	// File with the token to exchange, read before each exchange. Default: the caller's own token.
	Subject string `config:"subject" format:"path"`
	// Type of the token to exchange. Default: access_token, or id_token if grant is id_jag.
	SubjectType string `config:"subject_type" enum:"access_token|id_token|jwt"`
}

// Registration is the client at an issuer, nil where it is not registered by hand. It
// reads the file of the key.
func (c *Client) Registration(issuer string) (*oauth.Registration, error) {
	if c.ID == "" {
		return nil, nil
	}
	r := &oauth.Registration{Issuer: issuer, ID: c.ID, Secret: c.Secret.Reveal(), Method: c.Auth}
	if c.Key != "" {
		text, err := os.ReadFile(c.Key)
		if err != nil {
			return nil, fmt.Errorf("read the key: %w", err)
		}
		if r.Key, err = oauth.ParseKey(text, c.KeyID); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Key, err)
		}
		if r.Method == "" {
			r.Method = oauth.AuthKey
		}
	}
	return r, nil
}

// Check implements decode.Checker: everything that the mode needs is there, and nothing
// that means nothing in it.
func (a *Auth) Check(p *tree.Problems, n *tree.Node, path string) {
	x := &a.Exchange
	switch a.Mode {
	case ClientCredentials:
		if a.Client.ID == "" || a.Client.Secret == "" && a.Client.Key == "" {
			p.At(n.Get("client"), path+".client", "add id: and secret: or key:", "a client that signs in by itself has to be registered")
		}
	case Exchange:
		if x.Issuer == "" || x.Client.ID == "" {
			p.At(n.Get("exchange"), path+".exchange", "add issuer: and client: { id: ... }", "it is not said who trades the tokens")
		}
		if x.Subject == "" && a.Per == PerShared {
			p.At(n.Get("per"), path+".per", "remove it", "what a caller's token is traded for is that caller's alone")
		}
		if x.Grant == "id_jag" && a.Client.ID == "" {
			p.At(n.Get("client"), path+".client", "add client: { id: ... }", "the authorization server of the server has to know toolgate")
		}
	case Workload:
		if a.Assertion == "" {
			p.At(n, path+".assertion", "add assertion: FILE", "it is not said what proves the workload")
		}
	case Static:
		if a.Per == PerPrincipal {
			p.At(n.Get("per"), path+".per", "write another mode", "the headers of the file are the same for everyone")
		}
	case OAuth, APIKey, "":
	}
	a.checkIssuer(p, n, path)
	if a.Assertion != "" && a.Mode != Workload {
		p.At(n.Get("assertion"), path+".assertion", "write mode: workload, or remove it", "an assertion is for the mode workload alone")
	}
	if a.DPoP != "" && (a.Mode == Static || a.Mode == APIKey) {
		p.At(n.Get("dpop"), path+".dpop", "remove it", "only what an authorization server gives can be bound to a key")
	}
	for _, c := range []struct {
		n    *tree.Node
		path string
		Client
	}{{n.Get("client"), path + ".client", a.Client}, {n.Get("exchange").Get("client"), path + ".exchange.client", x.Client}} {
		switch {
		case c.Secret != "" && c.Key != "":
			p.At(c.n, c.path, "remove one", "the client has both a secret and a key")
		case c.ID == "" && (c.Secret != "" || c.Key != ""):
			p.At(c.n, c.path, "add id: ...", "the client has no id")
		case c.Auth == "private_key_jwt" && c.Key == "":
			p.At(c.n, c.path, "add key: FILE", "there is no key to sign with")
		case (c.Auth == "client_secret_basic" || c.Auth == "client_secret_post") && c.Secret == "":
			p.At(c.n, c.path, "add secret: ...", "there is no secret to show")
		}
	}
	for i, text := range a.Networks {
		if _, err := netip.ParsePrefix(text); err != nil {
			p.At(n.Get("networks").Item(i), path+".networks", "write one such as 10.0.0.0/8", "%.40q is not a block of addresses", text)
		}
	}
}

// checkIssuer reports what proves toolgate and may go anywhere: a server, which names
// its authorization server, would be handed it by naming one of its own.
func (a *Auth) checkIssuer(p *tree.Problems, n *tree.Node, path string) {
	if a.Issuer != "" {
		return
	}
	const fix = "add issuer: with the URL of the authorization server at which it was registered, such as https://login.example.com"
	const why = "nothing is sent to an authorization server that the server alone names"
	switch {
	case a.Client.Secret != "":
		p.At(n.Get("client"), path+".issuer", fix, "it is not said whom the client's secret is for, and %s", why)
	case a.Client.Key != "":
		p.At(n.Get("client"), path+".issuer", fix, "it is not said who may see what the client's key signs, and %s", why)
	case a.Assertion != "":
		p.At(n.Get("assertion"), path+".issuer", fix, "it is not said whom the assertion is for, and %s", why)
	}
}
