package auth_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
	"github.com/toolgate/toolgate/proxy/auth/authtest"
)

func TestChainAsksTheRightOne(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	a := newAuthority(t, s)
	text, sum := auth.Generate()
	keys, err := auth.NewKeys([]auth.Key{{ID: "ci", SHA256: sum, Scopes: []string{"read"}}})
	if err != nil {
		t.Fatal(err)
	}
	foreign := a.token(t, s, "iss", "https://other.example")
	a.active = map[string]map[string]any{"opaque": a.answer("sub", "bob"), foreign: a.answer("sub", "carol"), text + "x": a.answer("sub", "leak")}
	c, err := auth.NewChain(auth.ChainOptions{Keys: keys, JWT: newJWT(t, a), Introspection: newIntrospection(t, a)})
	if err != nil {
		t.Fatal(err)
	}
	if c.Keys() != keys {
		t.Error("the chain has other keys")
	}
	tests := []struct {
		name, token, subject string
		asked                int // in all
	}{
		{"API key", text, "ci", 0},
		{"like an API key", text + "x", "", 0},
		{"begins like one", "tgk_", "", 0},
		{"signed", a.token(t, s), "alice", 0},
		{"signed and bad", a.token(t, s, "aud", "other"), "", 0},
		{"signed, another key", newSigner(t, "k2", "EdDSA").sign(t, map[string]any{"alg": "EdDSA", "kid": "k2"}, a.claims()), "", 0},
		{"opaque", "opaque", "bob", 1},
		{"signed, issuer unknown", foreign, "carol", 2},
		{"unknown", "nothing", "", 3},
	}
	for _, tt := range tests {
		id, err := try(t, c, "/mcp", tt.token)
		if tt.subject == "" && !errors.Is(err, gate.ErrBadCredential) {
			t.Errorf("%s: error %v", tt.name, err)
		}
		if tt.subject != "" && (err != nil || id.Subject != tt.subject) {
			t.Errorf("%s: identity %+v, error %v", tt.name, id, err)
		}
		if _, asked := a.count(); asked != tt.asked {
			t.Errorf("%s: asked %d times in all, want %d", tt.name, asked, tt.asked)
		}
	}
	if _, err := c.Authenticate(newRequest(t, "127.0.0.1:1")); !errors.Is(err, gate.ErrNoCredential) {
		t.Errorf("no token: %v", err)
	}
	c.Close()
	if _, err := try(t, c, "/mcp", "opaque"); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("when closed: %v", err)
	}
}

func TestChainWithoutParts(t *testing.T) {
	t.Parallel()
	if _, err := auth.NewChain(auth.ChainOptions{}); err == nil {
		t.Error("a chain of nothing was made")
	}
	if _, err := auth.NewChain(auth.ChainOptions{Keys: &auth.Keys{}, Agree: true}); err == nil {
		t.Error("Agree without certificates was accepted")
	}
	for _, c := range []*auth.Chain{nil, {}} {
		if _, err := c.Authenticate(newRequest(t, "127.0.0.1:1")); !errors.Is(err, gate.ErrNoCredential) {
			t.Errorf("no token: %v", err)
		}
		for _, token := range []string{"opaque", "a.b.c", "tgk_x"} {
			if id, err := c.Authenticate(newRequest(t, "127.0.0.1:1", "Authorization", "Bearer "+token)); err == nil || id != nil {
				t.Errorf("the zero chain accepted %s", token)
			}
		}
		c.Close()
	}
}

// TestChainHeaderAndCertificate: the header wins, and a certificate never replaces an
// invalid one. With Agree both must be of one caller.
func TestChainHeaderAndCertificate(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	a := newAuthority(t, s)
	trusted := authtest.NewCA(t)
	certs, err := auth.NewCertificates(auth.CertificateOptions{CertificateSettings: auth.CertificateSettings{Subject: auth.FieldCN, Tenant: auth.FieldO}})
	if err != nil {
		t.Fatal(err)
	}
	j := newJWT(t, a, func(o *auth.JWTOptions) { o.Issuers[0].Claims.Tenant = "org" })
	alice := trusted.Client(t, x509.Certificate{Subject: pkix.Name{CommonName: "alice", Organization: []string{"acme"}}})
	bob := trusted.Client(t, x509.Certificate{Subject: pkix.Name{CommonName: "bob", Organization: []string{"acme"}}})
	away := trusted.Client(t, x509.Certificate{Subject: pkix.Name{CommonName: "alice", Organization: []string{"evil"}}})
	nobody := trusted.Client(t, x509.Certificate{})
	token := "Bearer " + a.token(t, s, "org", "acme")
	byToken := gate.Principal{Issuer: a.issuer, Tenant: "acme", Subject: "alice"}.Key()
	byCert := gate.Principal{Issuer: auth.CertificateIssuer, Tenant: "acme", Subject: "alice"}.Key()
	tests := []struct {
		name   string
		agree  bool
		certs  []*tls.Certificate
		header string
		want   string // the principal; empty: 401
	}{
		{"certificate alone", false, []*tls.Certificate{alice}, "", byCert},
		{"header alone", false, nil, token, byToken},
		{"neither", false, nil, "", ""},
		{"header wins", false, []*tls.Certificate{bob}, token, byToken},
		{"bad header, good certificate", false, []*tls.Certificate{alice}, "Bearer x", ""},
		{"Basic, good certificate", false, []*tls.Certificate{alice}, "Basic YTpi", ""},
		{"certificate of nobody", false, []*tls.Certificate{nobody}, "", ""},
		{"certificate of nobody, header", false, []*tls.Certificate{nobody}, token, byToken},
		{"agree: same", true, []*tls.Certificate{alice}, token, byToken},
		{"agree: other subject", true, []*tls.Certificate{bob}, token, ""},
		{"agree: other tenant", true, []*tls.Certificate{away}, token, ""},
		{"agree: nobody", true, []*tls.Certificate{nobody}, token, ""},
		{"agree: header alone", true, nil, token, byToken},
		{"agree: certificate alone", true, []*tls.Certificate{alice}, "", byCert},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := auth.NewChain(auth.ChainOptions{JWT: j, Certificates: certs, Agree: tt.agree})
			if err != nil {
				t.Fatal(err)
			}
			server := serveTLS(t, c, trusted, tls.VerifyClientCertIfGiven)
			var headers []string
			if tt.header != "" {
				headers = []string{"Authorization", tt.header}
			}
			resp, body := post(t, with(t, server, tt.certs...), server.URL+"/mcp", headers...)
			if tt.want == "" && resp.StatusCode != http.StatusUnauthorized || tt.want != "" && body != tt.want {
				t.Errorf("%d %q, want %q", resp.StatusCode, body, tt.want)
			}
		})
	}
}

func TestChainKnows(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	a := newAuthority(t, s)
	_, sum := auth.Generate()
	keys, err := auth.NewKeys([]auth.Key{{ID: "ci", SHA256: sum}})
	if err != nil {
		t.Fatal(err)
	}
	certs, err := auth.NewCertificates(auth.CertificateOptions{CertificateSettings: auth.CertificateSettings{Subject: auth.FieldCN}})
	if err != nil {
		t.Fatal(err)
	}
	chain := func(o auth.ChainOptions) *auth.Chain {
		c, err := auth.NewChain(o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	of := func(issuer string) *gate.Identity {
		return gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: issuer, Subject: "alice"}})
	}
	ci := keys.Identities()[0]
	tests := []struct {
		name  string
		chain *auth.Chain
		id    *gate.Identity
		want  bool
	}{
		{"a key", chain(auth.ChainOptions{Keys: keys}), ci, true},
		{"a key that is gone", chain(auth.ChainOptions{Certificates: certs}), ci, false},
		{"another caller by key", chain(auth.ChainOptions{Keys: keys}), of(auth.KeyIssuer), false},
		{"an issuer", chain(auth.ChainOptions{JWT: newJWT(t, a)}), of(a.issuer), true},
		{"another issuer", chain(auth.ChainOptions{JWT: newJWT(t, a), Certificates: certs}), of("https://other.example"), false},
		{"introspection", chain(auth.ChainOptions{Introspection: newIntrospection(t, a)}), of(a.issuer), true},
		{"a certificate", chain(auth.ChainOptions{Certificates: certs}), of(auth.CertificateIssuer), true},
		{"certificates no longer", chain(auth.ChainOptions{Keys: keys}), of(auth.CertificateIssuer), false},
		{"everyone local", chain(auth.ChainOptions{Keys: keys, Certificates: certs}), gate.NewIdentity(gate.Identity{Principal: gate.Local}), false},
		{"nobody", chain(auth.ChainOptions{Keys: keys}), nil, false},
		{"no chain", nil, ci, false},
	}
	for _, tt := range tests {
		if got := tt.chain.Knows(tt.id); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
