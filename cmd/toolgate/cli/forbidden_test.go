//go:build !windows

package cli

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// TestForbiddenTool has one tool of a server want a scope that is not to be had: its
// calls are refused, and the other tool is called in between as before.
func TestForbiddenTool(t *testing.T) {
	h, a := newHome(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	s.Need = func(tool string) string { return map[string]string{"whoami": "admin"}[tool] }
	a.Token = func(w http.ResponseWriter, r *http.Request) bool {
		return strings.Contains(r.PostForm.Get("scope"), "admin") && refuses(w, "invalid_scope")
	}
	h.write(t, servers{"web": {"url": s.URL}}, map[string]any{"servers": map[string]any{"web": map[string]any{"auth": map[string]any{
		"mode": "client_credentials", "issuer": a.Issuer, "client": map[string]any{"id": "robot", "secret": "canary-of-the-secret"}, "scopes": []string{"read"},
	}}}})
	p, _ := h.up(t)
	h.works(t, "robot")
	for range 2 {
		o := h.run(t, "call", "web__whoami", "--file", h.file)
		if o.code == exitOK || !strings.Contains(o.stdout+o.stderr, "more rights") {
			t.Errorf("the call that needs more ends with %d:\n%s%s", o.code, o.stdout, o.stderr)
		}
		if got := h.ok(t, "call", "web__echo", "--file", h.file, "text=hello"); !strings.Contains(got, ":hello") {
			t.Errorf("the other tool is answered %q", got)
		}
	}
	if got := h.servers(t)["web"]; got.State != "ready" {
		t.Errorf("the server is %s: %s", got.State, got.Reason)
	}
	p.stop(t, syscall.SIGTERM)
	requireNoSecret(t, h, p, append(a.Secrets(), "canary-of-the-secret", oauthtest.Evil))
}
