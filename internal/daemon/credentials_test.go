//go:build !windows

package daemon_test

import (
	"strings"
	"testing"

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
