//go:build !windows

package cli

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/proxy/auth/authtest"
)

// pki is an authority of the gateway and of clients.
type pki struct{ *authtest.CA }

func newPKI(t *testing.T) *pki {
	t.Helper()
	return &pki{authtest.NewCA(t)}
}

// files writes the gateway's own certificate, its key and the authority.
func (c *pki) files(t *testing.T, h *home) {
	t.Helper()
	_, cert, key := c.Gateway(t, time.Time{})
	for name, text := range map[string][]byte{
		"cert.pem": cert, "key.pem": key, "ca.pem": c.PEM,
	} {
		if err := os.WriteFile(h.path(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// shows returns a visitor whose connections show a certificate; nil shows none.
func (c *pki) shows(t *testing.T, url string, cert *tls.Certificate) visitor {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(c.Cert)
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if cert == nil {
			return &tls.Certificate{}, nil
		}
		return cert, nil
	}}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return visitor{client: &http.Client{Transport: transport, Timeout: patience}, url: url}
}

// refusesToTalk tells whether the handshake or the first request ends in an
// error.
func (v visitor) refusesToTalk(t *testing.T) bool {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.url+"/livez", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := v.client.Do(r)
	if err != nil {
		return true
	}
	resp.Body.Close()
	return false
}

func spiffe(t *testing.T, id string) []*url.URL {
	t.Helper()
	u, err := url.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	return []*url.URL{u}
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	h, ca, other, a := newHome(t), newPKI(t), newPKI(t), newAuthority(t, "a1")
	ca.files(t, h)
	section := map[string]any{
		"listen": map[string]any{"public_url": public, "tls": map[string]any{"cert": "cert.pem", "key": "key.pem", "client_ca": "ca.pem"}},
		"auth": map[string]any{
			"mtls": map[string]any{"subject": "uri", "tenant": "o", "groups": "ou", "scopes": []string{"basic"}, "agree": true},
			"jwt":  map[string]any{"issuer": a.issuer, "claims": map[string]any{"groups": "groups", "tenant": "org"}},
		},
		"capsules": map[string]any{"all": map[string]any{"visible": []string{"*"}, "callable": []string{"*"}, "groups": []string{"staff"}}},
	}
	h.write(t, servers{"a": fake("one")}, section)
	address := testport.Address(t)
	h.up(t, "--listen", address)
	url := "https://" + address

	alice := x509.Certificate{Subject: pkix.Name{Organization: []string{"acme"}, OrganizationalUnit: []string{"staff"}}, URIs: spiffe(t, "spiffe://acme/alice")}
	bob := alice
	bob.Subject.Organization = []string{"globex"}
	guest := alice
	guest.Subject.OrganizationalUnit = []string{"guests"}
	nobody := x509.Certificate{Subject: pkix.Name{CommonName: "alice", OrganizationalUnit: []string{"staff"}}}
	two := alice
	two.URIs = append(spiffe(t, "spiffe://acme/eve"), alice.URIs...)
	good := ca.Client(t, alice)
	for name, tt := range map[string]struct {
		cert *tls.Certificate
		want int
		sees bool
	}{
		"a good one":     {good, 200, true},
		"another tenant": {ca.Client(t, bob), 200, true},
		"another group":  {ca.Client(t, guest), 200, false},
		"none":           {nil, 401, false},
		"of nobody":      {ca.Client(t, nobody), 401, false},
		"of two":         {ca.Client(t, two), 401, false},
	} {
		got := ca.shows(t, url, tt.cert).tools(t)
		if got.status != tt.want || strings.Contains(got.body, "a__pid") != tt.sees {
			t.Errorf("%s: %+v", name, got)
		}
	}
	expired := alice
	expired.NotBefore, expired.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	for name, cert := range map[string]*tls.Certificate{"of another authority": other.Client(t, alice), "expired": ca.Client(t, expired)} {
		if !ca.shows(t, url, cert).refusesToTalk(t) {
			t.Errorf("a certificate %s is taken", name)
		}
	}

	// The same subject of two tenants: neither the processes nor the sessions of
	// the other.
	mine, theirs := ca.shows(t, url, good), ca.shows(t, url, ca.Client(t, bob))
	if x, y := mine.use(t, "/mcp", "a__pid", `{}`), theirs.use(t, "/mcp", "a__pid", `{}`); x.status != 200 || x.body == y.body {
		t.Errorf("two tenants share a process: %+v, %+v", x, y)
	}
	named := mine.session(t)
	if got := theirs.do(t, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, named...); got.status != http.StatusNotFound {
		t.Errorf("a session of another tenant: %+v", got)
	}

	// Tokens with and without the certificate that they are bound to, and the two
	// callers in disagreement.
	sum := sha256.Sum256(good.Certificate[0])
	bound := map[string]any{"sub": "spiffe://acme/alice", "org": "acme", "groups": []string{"staff"}, "cnf": map[string]any{"x5t#S256": b64.EncodeToString(sum[:])}}
	token := a.token(t, "a1", public+"/mcp", bound)
	plain := a.token(t, "a1", public+"/mcp", map[string]any{"sub": "carol", "groups": []string{"staff"}})
	for name, tt := range map[string]struct {
		v    visitor
		want int
	}{
		"bound, with its certificate":     {mine.as(token), 200},
		"bound, with another certificate": {theirs.as(token), 401},
		"bound, without a certificate":    {ca.shows(t, url, nil).as(token), 401},
		"of another than the certificate": {mine.as(plain), 401},
		"without a certificate":           {ca.shows(t, url, nil).as(plain), 200},
		"bad, with a good certificate":    {mine.as("nonsense"), 401},
	} {
		if got := tt.v.tools(t); got.status != tt.want {
			t.Errorf("a token %s: %+v", name, got)
		}
	}
}

func TestCertificatesAreRequired(t *testing.T) {
	t.Parallel()
	h, ca := newHome(t), newPKI(t)
	ca.files(t, h)
	section := map[string]any{
		"listen": map[string]any{"tls": map[string]any{"cert": "cert.pem", "key": "key.pem", "client_ca": "ca.pem"}},
		"auth":   map[string]any{"mtls": map[string]any{"required": true}},
		"gate":   map[string]any{"open": true},
	}
	h.write(t, servers{"a": fake("one")}, section)
	p, url := h.up(t)
	if got := ca.shows(t, url, ca.Client(t, x509.Certificate{Subject: pkix.Name{CommonName: "alice"}})).tools(t); got.status != http.StatusOK || !strings.Contains(got.body, "a__pid") {
		t.Errorf("with a certificate: %+v", got)
	}
	if !ca.shows(t, url, nil).refusesToTalk(t) {
		t.Error("a connection without a certificate is taken")
	}
	if o := h.run(t, "call", "a__pid", "--file", h.file); o.code != exitAuth {
		t.Errorf("over the socket, which has no certificates: %+v", o)
	}
	p.stop(t, syscall.SIGTERM)

	// The start says what is wrong with the authorities.
	for content, want := range map[string]string{"no certificate": "holds no certificate in PEM", "": "holds no certificate in PEM"} {
		if err := os.WriteFile(h.path("ca.pem"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if o := h.run(t, "up", h.file); o.code != exitConfig || !strings.Contains(o.stderr, "listen.tls.client_ca") || !strings.Contains(o.stderr, want) {
			t.Errorf("authorities %q: %+v", content, o)
		}
	}
	if err := os.Remove(h.path("ca.pem")); err != nil {
		t.Fatal(err)
	}
	if o := h.run(t, "up", h.file); o.code != exitConfig || !strings.Contains(o.stderr, "listen.tls.client_ca") {
		t.Errorf("no authorities: %+v", o)
	}
}
