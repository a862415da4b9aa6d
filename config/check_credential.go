package config

import (
	"net/netip"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/upstream"
)

// checkServerAuth reports what only several values together can have wrong in how
// toolgate authenticates to a server.
func checkServerAuth(p *tree.Problems, n *tree.Node, path string, s *ServerSettings, t *Toolgate) {
	a, x := &s.Auth, &s.Auth.Exchange
	switch a.Mode {
	case AuthClientCredentials:
		if a.Client.ID == "" || a.Client.Secret == "" && a.Client.Key == "" {
			p.At(n.Get("client"), path+".client", "add id: and secret: or key:", "a client that signs in by itself has to be registered")
		}
	case AuthExchanged:
		if x.Issuer == "" || x.Client.ID == "" {
			p.At(n.Get("exchange"), path+".exchange", "add issuer: and client: { id: ... }", "it is not said who trades the tokens")
		}
		if x.Subject == "" && !t.TakesTokens() {
			p.At(n.Get("exchange"), path+".exchange", "add auth.jwt or auth.introspection, or subject: FILE", "callers bring no tokens that could be traded")
		}
		if x.Subject == "" && a.Per == PerShared {
			p.At(n.Get("per"), path+".per", "remove it", "what a caller's token is traded for is that caller's alone")
		}
		if x.Grant == "id_jag" && a.Client.ID == "" {
			p.At(n.Get("client"), path+".client", "add client: { id: ... }", "the authorization server of the server has to know toolgate")
		}
	case AuthWorkload:
		if a.Assertion == "" {
			p.At(n, path+".assertion", "add assertion: FILE", "it is not said what proves the workload")
		}
	case AuthStatic:
		if a.Per == PerPrincipal {
			p.At(n.Get("per"), path+".per", "write another mode", "the headers of the file are the same for everyone")
		}
	case AuthOAuth, AuthKey, "":
	}
	checkIssuer(p, n, path, a)
	if a.Assertion != "" && a.Mode != AuthWorkload {
		p.At(n.Get("assertion"), path+".assertion", "write mode: workload, or remove it", "an assertion is for the mode workload alone")
	}
	if a.DPoP != "" && (a.Mode == AuthStatic || a.Mode == AuthKey) {
		p.At(n.Get("dpop"), path+".dpop", "remove it", "only what an authorization server gives can be bound to a key")
	}
	for _, c := range []struct {
		n    *tree.Node
		path string
		AuthClient
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
	if a.Header != "" && !validHeaderName(a.Header) {
		p.At(n.Get("header"), path+".header", "", "%.40q is not a name of a header", a.Header)
	}
	if s.Isolation == upstream.IsolateShared && a.Per == PerPrincipal {
		p.At(n.Get("per"), path+".per", "remove isolation: shared", "connections that all share cannot carry a credential of each caller")
	}
	for i, text := range a.Networks {
		if _, err := netip.ParsePrefix(text); err != nil {
			p.At(n.Get("networks").Item(i), path+".networks", "write one such as 10.0.0.0/8", "%.40q is no block of addresses", text)
		}
	}
}

// checkIssuer reports what proves toolgate and may go anywhere: a server, which names
// its authorization server, would be handed it by naming one of its own.
func checkIssuer(p *tree.Problems, n *tree.Node, path string, a *ServerAuth) {
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
