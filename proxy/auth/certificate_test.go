package auth_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
	"github.com/toolgate/toolgate/proxy/auth/authtest"
)

// serveTLS is serve over TLS with client certificates of an authority.
func serveTLS(t *testing.T, a identifier, trusted *authtest.CA, mode tls.ClientAuthType) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(gateway(a, nil, nil))
	pool := x509.NewCertPool()
	pool.AddCert(trusted.Cert)
	server.TLS = &tls.Config{ClientCAs: pool, ClientAuth: mode}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // for handshakes that must fail
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// with returns a client of the server with certificates.
func with(t *testing.T, server *httptest.Server, certs ...*tls.Certificate) *http.Client {
	t.Helper()
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if len(certs) == 0 {
			return &tls.Certificate{}, nil
		}
		return certs[0], nil
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func mustURL(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestCertificatesOverTLS(t *testing.T) {
	t.Parallel()
	trusted, other := authtest.NewCA(t), authtest.NewCA(t)
	c, err := auth.NewCertificates(auth.CertificateOptions{CertificateSettings: auth.CertificateSettings{Subject: auth.FieldURI, Tenant: auth.FieldO}})
	if err != nil {
		t.Fatal(err)
	}
	server := serveTLS(t, c, trusted, tls.VerifyClientCertIfGiven)
	spiffe := x509.Certificate{URIs: []*url.URL{mustURL(t, "spiffe://example.org/ci")}, Subject: pkix.Name{Organization: []string{"acme"}}}
	resp, body := post(t, with(t, server, trusted.Client(t, spiffe)), server.URL+"/mcp")
	want := gate.Principal{Issuer: auth.CertificateIssuer, Tenant: "acme", Subject: "spiffe://example.org/ci"}.Key()
	if resp.StatusCode != http.StatusOK || body != want {
		t.Errorf("%d %q, want %q", resp.StatusCode, body, want)
	}
	if resp, _ := post(t, with(t, server), server.URL+"/mcp"); resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("no certificate: %d %q", resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
	}
	expired := spiffe
	expired.NotAfter = time.Now().Add(-time.Minute)
	forServers := spiffe
	forServers.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for name, cert := range map[string]*tls.Certificate{
		"another authority": other.Client(t, spiffe), "expired": trusted.Client(t, expired), "of a server": trusted.Client(t, forServers),
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/mcp", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := with(t, server, cert).Do(r); err == nil {
			resp.Body.Close()
			t.Errorf("%s: the handshake worked: %d", name, resp.StatusCode)
		}
	}
	// A listener that does not verify must not accept anyone.
	lax := serveTLS(t, c, trusted, tls.RequestClientCert)
	if resp, _ := post(t, with(t, lax, other.Client(t, spiffe)), lax.URL+"/mcp"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a certificate that was not verified: %d", resp.StatusCode)
	}
}

func TestCertificateFields(t *testing.T) {
	t.Parallel()
	issuer := authtest.NewCA(t)
	full := x509.Certificate{
		URIs: []*url.URL{mustURL(t, "spiffe://example.org/ci")}, DNSNames: []string{"ci.example.org"}, EmailAddresses: []string{"ci@example.org"},
		Subject: pkix.Name{CommonName: "ci", Organization: []string{"acme"}, OrganizationalUnit: []string{"dev", "ops"}},
	}
	more := full
	more.DNSNames = []string{"a.example", "b.example"}
	broken := full
	broken.Subject.CommonName = "ci\nroot"
	tests := []struct {
		name    string
		cert    x509.Certificate
		options auth.CertificateOptions
		want    *gate.Identity // nil: refused
	}{
		{"uri", full, auth.CertificateOptions{CertificateSettings: auth.CertificateSettings{Subject: auth.FieldURI}}, &gate.Identity{Principal: gate.Principal{Issuer: auth.CertificateIssuer, Tenant: "default", Subject: "spiffe://example.org/ci"}}},
		{"dns", full, auth.CertificateOptions{CertificateSettings: auth.CertificateSettings{Subject: auth.FieldDNS}}, &gate.Identity{Principal: gate.Principal{Issuer: auth.CertificateIssuer, Tenant: "default", Subject: "ci.example.org"}}},
		{
			"all", full,
			auth.CertificateOptions{
				Issuer: "ca", CertificateSettings: auth.CertificateSettings{Subject: auth.FieldEmail, Tenant: auth.FieldO, Persona: auth.FieldCN, Groups: auth.FieldOU, Plan: auth.FieldO, Scopes: []string{"read"}},
			},
			&gate.Identity{
				Principal: gate.Principal{Issuer: "ca", Tenant: "acme", Subject: "ci@example.org"},
				Persona:   "ci", Groups: []string{"dev", "ops"}, Plan: "acme", Scopes: []string{"read"},
			},
		},
		{"no such name", x509.Certificate{}, auth.CertificateOptions{CertificateSettings: auth.CertificateSettings{Subject: auth.FieldCN}}, nil},
		{"two names", more, auth.CertificateOptions{CertificateSettings: auth.CertificateSettings{Subject: auth.FieldDNS}}, nil},
		{"two tenants", full, auth.CertificateOptions{CertificateSettings: auth.CertificateSettings{Subject: auth.FieldCN, Tenant: auth.FieldOU}}, nil},
		{"break in the name", broken, auth.CertificateOptions{CertificateSettings: auth.CertificateSettings{Subject: auth.FieldCN}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := auth.NewCertificates(tt.options)
			if err != nil {
				t.Fatal(err)
			}
			leaf := issuer.Client(t, tt.cert).Leaf
			r := newRequest(t, "192.0.2.1:1")
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf, issuer.Cert}}}
			g, err := c.Identify(r)
			if tt.want == nil {
				if !errors.Is(err, gate.ErrBadCredential) || g.Identity != nil {
					t.Fatalf("identity %v, error %v", g.Identity, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			id := g.Identity
			if id.Principal != tt.want.Principal || id.Persona != tt.want.Persona || id.Plan != tt.want.Plan || id.Credential != "certificate:"+leaf.SerialNumber.Text(16) ||
				!slices.Equal(id.Groups, tt.want.Groups) || !slices.Equal(id.Scopes, tt.want.Scopes) || !g.Expires.Equal(leaf.NotAfter) {
				t.Errorf("%+v until %v, want %+v", id, g.Expires, tt.want)
			}
		})
	}
}

// TestCertificateEndsWithinItsConnection: the certificate was valid at the handshake
// and has expired since.
func TestCertificateEndsWithinItsConnection(t *testing.T) {
	t.Parallel()
	issuer := authtest.NewCA(t)
	leaf := issuer.Client(t, x509.Certificate{Subject: pkix.Name{CommonName: "ci"}, NotAfter: time.Now().Add(-time.Second)}).Leaf
	c, err := auth.NewCertificates(auth.CertificateOptions{CertificateSettings: auth.CertificateSettings{Subject: auth.FieldCN}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRequest(t, "192.0.2.1:1")
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf, issuer.Cert}}}
	if _, err := c.Identify(r); !errors.Is(err, gate.ErrBadCredential) {
		t.Errorf("error %v", err)
	}
}

func TestNewCertificatesRefuses(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]auth.CertificateOptions{
		"no subject":      {},
		"o as subject":    {CertificateSettings: auth.CertificateSettings{Subject: auth.FieldO}},
		"unknown field":   {CertificateSettings: auth.CertificateSettings{Subject: auth.FieldCN, Tenant: "serial"}},
		"issuer of keys":  {CertificateSettings: auth.CertificateSettings{Subject: auth.FieldCN}, Issuer: auth.KeyIssuer},
		"issuer of local": {CertificateSettings: auth.CertificateSettings{Subject: auth.FieldCN}, Issuer: gate.Local.Issuer},
		"bad scope":       {CertificateSettings: auth.CertificateSettings{Subject: auth.FieldCN, Scopes: []string{"a b"}}},
	} {
		if _, err := auth.NewCertificates(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	leaf := authtest.NewCA(t).Cert
	r := newRequest(t, "192.0.2.1:1")
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
	for _, c := range []*auth.Certificates{nil, {}} {
		if _, err := c.Identify(r); !errors.Is(err, gate.ErrBadCredential) {
			t.Errorf("the zero Certificates: %v", err)
		}
	}
}

// TestBoundTokens is RS23 (RFC 8705): a bound token needs its certificate, also from
// the cache. Any authority may have issued the certificate.
func TestBoundTokens(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "k1", "EdDSA")
	a := newAuthority(t, s)
	trusted := authtest.NewCA(t)
	server := serveTLS(t, newJWT(t, a), trusted, tls.RequestClientCert)
	own, other := trusted.Client(t, x509.Certificate{}), trusted.Client(t, x509.Certificate{})
	sum := sha256.Sum256(own.Leaf.Raw)
	token := "Bearer " + a.token(t, s, "cnf", map[string]any{"x5t#S256": b64.EncodeToString(sum[:])})
	for range 2 {
		for _, tt := range []struct {
			name   string
			client *http.Client
			want   int
		}{
			{"own", with(t, server, own), http.StatusOK},
			{"another", with(t, server, other), http.StatusUnauthorized},
			{"none", with(t, server), http.StatusUnauthorized},
		} {
			if resp, _ := post(t, tt.client, server.URL+"/mcp", "Authorization", token); resp.StatusCode != tt.want {
				t.Errorf("certificate %s: %d, want %d", tt.name, resp.StatusCode, tt.want)
			}
		}
	}
	for name, cnf := range map[string]any{
		"SHA-1":        map[string]any{"x5t": b64.EncodeToString(sum[:20])},
		"and more":     map[string]any{"x5t#S256": b64.EncodeToString(sum[:]), "jkt": "x"},
		"cut":          map[string]any{"x5t#S256": b64.EncodeToString(sum[:31])},
		"not a string": map[string]any{"x5t#S256": 1},
		"empty":        map[string]any{},
	} {
		if resp, _ := post(t, with(t, server, own), server.URL+"/mcp", "Authorization", "Bearer "+a.token(t, s, "cnf", cnf)); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("binding %s: %d", name, resp.StatusCode)
		}
	}
}
