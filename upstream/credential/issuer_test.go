package credential_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/upstream/credential"
	"github.com/toolgate/toolgate/upstream/oauth"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// provers are the ways in which a configuration proves the gateway.
func provers(t *testing.T) map[string]func(set *credential.Settings) {
	file := filepath.Join(t.TempDir(), "assertion")
	write(t, file, "canary.assertion.1\n")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	signs, err := oauth.ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), "")
	if err != nil {
		t.Fatal(err)
	}
	client := func(r oauth.Registration) func(set *credential.Settings) {
		return func(set *credential.Settings) {
			r.Issuer = set.Issuer
			set.Mode, set.Shared, set.Client = credential.ClientCredentials, true, &r
		}
	}
	return map[string]func(set *credential.Settings){
		"secret": client(oauth.Registration{ID: "robot", Secret: "canary-secret"}),
		"key":    client(oauth.Registration{ID: "robot", Key: signs, Method: oauth.AuthKey}),
		"assertion": func(set *credential.Settings) {
			set.Mode, set.Shared, set.Assertion = credential.Workload, true, file
		},
	}
}

// What proves the gateway goes to nobody whom the server alone names: neither at first
// nor after the server has named another authorization server.
func TestProofsGoToTheIssuerAlone(t *testing.T) {
	for name, proven := range provers(t) {
		t.Run(name+", no issuer", func(t *testing.T) {
			w := newWorld(t).with(func(set *credential.Settings) {
				set.Issuer = ""
				proven(set)
			})
			_, err := w.source.Headers(t.Context(), "")
			if err == nil || !strings.Contains(err.Error(), "auth.issuer") || len(w.a.Requests("/token")) != 0 {
				t.Errorf("%v, and %d tokens were asked for", err, len(w.a.Requests("/token")))
			}
		})
		t.Run(name+", another later", func(t *testing.T) {
			w, evil := newWorld(t).with(proven), oauthtest.New(t)
			if _, err := w.source.Headers(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			w.s.Authorities = []*oauthtest.Authority{evil}
			for range 3 {
				if err := w.refuse(t); err == nil || !strings.Contains(err.Error(), "auth.issuer") {
					t.Errorf("the change is told of as %v", err)
				}
			}
			if n := len(evil.Requests("/token")) + len(evil.Requests("/register")); n != 0 {
				t.Errorf("the other authorization server is asked %d times", n)
			}
		})
		t.Run(name+", another beside it", func(t *testing.T) {
			w, evil := newWorld(t).with(proven), oauthtest.New(t)
			w.s.Authorities = []*oauthtest.Authority{evil, w.a}
			if _, err := w.source.Headers(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			if n := len(evil.Requests("/token")); n != 0 || len(w.a.Requests("/token")) != 1 {
				t.Errorf("the other authorization server is asked %d times", n)
			}
		})
	}
}

// A person who signs in is not sent elsewhere with the client of the configuration,
// and no login ends elsewhere.
func TestLoginsGoToTheIssuerAlone(t *testing.T) {
	configured := func(set *credential.Settings) {
		set.Client = &oauth.Registration{Issuer: set.Issuer, ID: "robot", Secret: "canary-secret"}
	}
	way := credential.Way{Redirect: redirect}
	for name, issuer := range map[string]func(set *credential.Settings){
		"none": func(set *credential.Settings) { set.Issuer = "" }, "another": func(*credential.Settings) {},
	} {
		w, evil := newWorld(t), oauthtest.New(t)
		w.with(func(set *credential.Settings) {
			issuer(set)
			configured(set)
		})
		w.s.Authorities = []*oauthtest.Authority{evil}
		to, _, err := w.flow.Begin(t.Context(), w.source, "", way)
		if err == nil || !strings.Contains(err.Error(), "auth.issuer") || strings.Contains(to, evil.Issuer) {
			t.Errorf("%s: sent to %q: %v", name, to, err)
		}
		if n := len(evil.Requests("/token")); n != 0 {
			t.Errorf("%s: asked %d times", name, n)
		}
	}
}
