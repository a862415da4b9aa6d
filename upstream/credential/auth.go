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
	// Mode is the kind of credential: static sends the entry's headers, oauth is signed in to by a person, client_credentials,
	// exchange and workload ask an authorization server for tokens, and key is an API key that a person enters.
	// Absent: static where the entry has headers, else oauth.
	Mode Mode `config:"mode" enum:"static|oauth|client_credentials|exchange|workload|key"`
	// Per is whose credential it is: one for all callers, or one of each caller's own. Absent: principal for an exchange of callers' tokens, else shared.
	Per Per `config:"per" enum:"shared|principal"`
	// Issuer is the authorization server at which the client is registered; no other one is used. It is required beside a secret, a key or an assertion. Absent: the first one that the server names.
	Issuer string `config:"issuer" format:"url"`
	// Client is what toolgate is to that authorization server. Absent: it introduces itself, by its metadata document or by registering.
	Client Client `config:"client"`
	// Scopes are asked for besides those that the server names. Absent: none.
	Scopes []string `config:"scopes"`
	// Header carries an API key. Absent: Authorization.
	Header string `config:"header"`
	// Prefix is written before an API key. Absent: "Bearer " in Authorization, else nothing.
	Prefix *string `config:"prefix"`
	// Exchange trades the identity of a caller for a token. Absent: refused where mode is exchange.
	Exchange ExchangeSettings `config:"exchange"`
	// Assertion is a file with the JWT that proves the workload toolgate is, such as a projected token of Kubernetes, read for each token that is asked for. Absent: refused where mode is workload.
	Assertion string `config:"assertion" format:"path"`
	// DPoP binds tokens to a key of toolgate's, so that nobody else can use them: auto where the authorization server can and the server is not known to take other tokens alone, required never uses another token, and off binds none. Absent: auto.
	DPoP Binding `config:"dpop" enum:"auto|required|off"`
	// Networks are private ones, such as 10.0.0.0/8, in which metadata and tokens may be asked for. Absent: none, or this machine for a server on this machine.
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
	// ID is the client's id. Absent: it is not registered by hand.
	ID string `config:"id"`
	// Secret proves the client. Absent: nothing, or its key, does.
	Secret secret.Text `config:"secret"`
	// Key is a file with a private key in PEM that signs what proves the client (private_key_jwt). Absent: none.
	Key string `config:"key" format:"path"`
	// KeyID names the key to the authorization server. Absent: it is not named.
	KeyID string `config:"key_id"`
	// Auth is the method by which the client proves itself. Absent: by its key, else as the authorization server says, by its secret.
	Auth string `config:"auth" enum:"none|client_secret_basic|client_secret_post|private_key_jwt"`
}

// ExchangeSettings are how an identity provider trades what proves a caller.
type ExchangeSettings struct {
	// Issuer is the identity provider. Absent: refused.
	Issuer string `config:"issuer" format:"url"`
	// Client is what toolgate is to the identity provider. Its id is required. Absent: refused.
	Client Client `config:"client"`
	// Grant is what the identity provider gives: an access token for the server, or an assertion that the server's own authorization server takes. Absent: access_token.
	Grant string `config:"grant" enum:"access_token|id_jag"`
	// Audience is what the access token is for. Absent: the server is named by its URL alone.
	Audience string `config:"audience"`
	// Subject is a file with the token that is traded, read at each exchange. Absent: the caller's own token.
	Subject string `config:"subject" format:"path"`
	// SubjectType is what is traded. Absent: access_token, or id_token where grant is id_jag.
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
			p.At(n.Get("networks").Item(i), path+".networks", "write one such as 10.0.0.0/8", "%.40q is no block of addresses", text)
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
