//go:build !windows

package daemon_test

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// A token that the gateway got for itself is hidden as those of the file are.
func TestHiddenCredentials(t *testing.T) {
	t.Parallel()
	h, a := newHome(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	h.write(t, servers{"web": {"url": s.URL}}, map[string]any{"servers": map[string]any{
		"web": map[string]any{"auth": map[string]any{"mode": "client_credentials", "issuer": a.Issuer, "client": map[string]any{"id": "robot", "secret": "canary-of-the-secret"}}},
	}})
	r := h.newRunning(t)
	if got := text(t, r.client(t), "web__echo", `{"text":"hello"}`); !strings.Contains(got, "hello") {
		t.Errorf("answered %q", got)
	}
	for _, secret := range append(a.Secrets(), "canary-of-the-secret") {
		if got := r.Hidden.Shown("it is " + secret + "."); got != "it is [redacted: secret]." {
			t.Errorf("shown: %q", got)
		}
	}
}

// A refused reload leaves the secrets in use hidden, and hides those that it has read. A
// reload forgets the old ones when their servers have ended.
func TestHiddenSecretsAfterReloads(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	write := func(token string, toolgate map[string]any) {
		server := fake()
		server["env"] = map[string]any{"API_TOKEN": token}
		h.write(t, servers{"a": server}, toolgate)
	}
	write("canary-of-the-old", nil)
	r := h.newRunning(t)
	shows := func(secret string) bool { return r.Hidden.Shown(secret) == secret }
	write("canary-of-the-new", withKeys("alice")) // a running gateway cannot begin to ask for keys
	if _, err := r.Reload(); err == nil {
		t.Fatal("the reload was not refused")
	}
	for _, secret := range []string{"canary-of-the-old", "canary-of-the-new"} {
		if shows(secret) {
			t.Errorf("%s is shown after a refused reload", secret)
		}
	}
	write("canary-of-the-new", nil)
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the old secret is forgotten", func() bool { return shows("canary-of-the-old") })
	if shows("canary-of-the-new") {
		t.Error("the new secret is shown")
	}
}
