//go:build e2e && !windows

package cli

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// TestWorkloadOfAFile has the gateway show the assertion of a file. One that is refused
// is shown once, and the next one is taken.
func TestWorkloadOfAFile(t *testing.T) {
	t.Parallel()
	h, a := newHome(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	a.Token = func(w http.ResponseWriter, r *http.Request) bool {
		return r.PostForm.Get("assertion") == "canary.bad.assertion" && refuses(w, "invalid_grant")
	}
	file := h.path("assertion")
	show := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	show("canary.bad.assertion\n")
	h.write(t, servers{"web": {"url": s.URL}}, map[string]any{"servers": map[string]any{
		"web": map[string]any{"auth": map[string]any{"mode": "workload", "issuer": a.Issuer, "assertion": "assertion", "scopes": []string{"read"}}},
	}})
	p, url := h.up(t)
	for range 3 {
		if o := h.run(t, "call", "web__echo", "--file", h.file, "text=hello"); o.code == exitOK || strings.Contains(o.stdout+o.stderr, "canary") {
			t.Errorf("the call ends with %d:\n%s%s", o.code, o.stdout, o.stderr)
		}
	}
	if got := h.servers(t)["web"]; got.State != "needs_login" || !strings.Contains(got.Reason, "does not accept the workload's assertion") || !strings.Contains(got.Reason, "invalid_grant") {
		t.Errorf("the server is %s: %s", got.State, got.Reason)
	}
	if n := len(a.Requests("/token")); n != 1 {
		t.Errorf("a refused assertion is shown %d times", n)
	}
	show("canary.good.assertion")
	client := newClient(t)
	// The gateway tries such a server again after half a minute. No process for each look.
	testwait.Until(t, 2*patience, "a call with the other assertion", func() bool {
		_, answer := post(t, client, url, "", "tools/call", "web__echo", `"name":"web__echo","arguments":{"text":"hello"},`)
		return bytes.Contains(answer, []byte("exchanged canary.good.assertion:hello"))
	})
	h.works(t, "exchanged canary.good.assertion")
	if n := len(a.Requests("/token")); n != 2 {
		t.Errorf("%d tokens were asked for, want one more", n)
	}
	p.stop(t, syscall.SIGTERM)
	requireNoSecret(t, h, p, append(a.Secrets(), "canary.", oauthtest.Evil))
}
