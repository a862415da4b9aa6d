//go:build !windows

package cli

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/daemon/hidden"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// TestClientCredentials has the gateway sign in by itself, by a secret and by a
// key, and again after its token was revoked.
func TestClientCredentials(t *testing.T) {
	for name, client := range map[string]map[string]any{
		"secret": {"id": "robot", "secret": "canary-of-the-secret"},
		"post":   {"id": "robot", "secret": "canary-of-the-secret", "auth": "client_secret_post"},
		"key":    {"id": "robot", "key": "key.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, a := newHome(t), oauthtest.New(t)
			s := oauthtest.NewServer(t, a)
			_, key, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			der, err := x509.MarshalPKCS8PrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
			if err := os.WriteFile(h.path("key.pem"), text, 0o600); err != nil {
				t.Fatal(err)
			}
			h.write(t, servers{"web": {"url": s.URL}}, map[string]any{"servers": map[string]any{
				"web": map[string]any{"auth": map[string]any{"mode": "client_credentials", "issuer": a.Issuer, "client": client, "scopes": []string{"read"}}},
			}})
			p, _ := h.up(t)
			for range 2 {
				if got := h.ok(t, "call", "web__echo", "--file", h.file, "text=hello"); !strings.Contains(got, ":hello") {
					t.Errorf("answered %q", got)
				}
				a.Revoke(true)
			}
			asked := a.Requests("/token")
			if len(asked) != 2 {
				t.Errorf("%d tokens were asked for, want one and another after the first was revoked", len(asked))
			}
			for _, r := range asked {
				if r.Form.Get("resource") != s.URL || r.Form.Get("scope") != "read" || r.Form.Get("grant_type") != "client_credentials" {
					t.Errorf("asked with %v", r.Form)
				}
			}
			p.stop(t, syscall.SIGTERM)
			secrets := append(a.Secrets(), "canary-of-the-secret", oauthtest.Evil)
			requireNoSecret(t, h, p, secrets)
		})
	}
}

// TestHiddenInUse: secrets are hidden for as long as they are in use, however many there
// are, and those that were in use lately.
func TestHiddenInUse(t *testing.T) {
	t.Parallel()
	var h hidden.Secrets
	if got := h.Shown("ghp_" + strings.Repeat("Canary", 6)); !strings.Contains(got, "redacted") {
		t.Errorf("before anything is known: %q", got)
	}
	name := func(i int) string { return fmt.Sprintf("learned-%06d", i) }
	h.Use([]string{"of-the-settings"}, slog.New(slog.DiscardHandler))
	const many = 20 * hidden.MaxRetired
	var retire []func()
	for i := range many {
		retire = append(retire, h.Learn(name(i)))
	}
	again := h.Learn(name(1)) // of another caller
	requireHidden := func(hidden bool, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if got := h.Shown("it is " + text); strings.Contains(got, text) == hidden {
				t.Errorf("%s is shown as %q", text, got)
			}
		}
	}
	requireHidden(true, name(0), name(1), name(many/2), name(many-1), "of-the-settings")
	alone := h.Use([]string{"of-the-next-settings"}, slog.New(slog.DiscardHandler))
	requireHidden(true, name(0), name(many-1), "of-the-next-settings", "of-the-settings")
	alone()
	requireHidden(true, name(0), name(many-1), "of-the-next-settings")
	requireHidden(false, "of-the-settings")
	for _, retired := range retire {
		retired()
	}
	requireHidden(false, name(0), name(many-hidden.MaxRetired-1))
	requireHidden(true, name(1), name(many-hidden.MaxRetired), name(many-1))
	again()
	if n := h.Held.Len(); n != hidden.MaxRetired {
		t.Errorf("%d secrets are remembered", n)
	}
}

// requireNoSecret looks for secrets in all that a gateway wrote.
func requireNoSecret(t *testing.T, h *home, p *process, secrets []string) {
	t.Helper()
	look := func(where, text string) {
		for _, secret := range secrets {
			if secret != "" && strings.Contains(text, secret) {
				t.Errorf("%s holds the secret %.20s", where, secret)
			}
		}
	}
	look("what it printed", p.out.String()+p.err.String())
	err := filepath.WalkDir(filepath.Join(h.dir, "state"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		look(path, string(text))
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
