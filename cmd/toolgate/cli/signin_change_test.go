//go:build !windows

package cli

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// TestLinksAfterChanges has the configuration change while somebody has a link and has
// proven who they are: whose key is another one now is asked again, and what has become
// everyone's credential is nobody's to provide by a link.
func TestLinksAfterChanges(t *testing.T) {
	h, a := newHome(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	configure := func(key, per string) {
		t.Helper()
		h.write(t, servers{"web": {"url": s.URL}}, map[string]any{
			"auth": map[string]any{"keys": []any{map[string]any{"id": key, "sha256": sum(key), "subject": "alice"}}},
			"gate": map[string]any{"open": true}, "registry": map[string]any{"on_new": "enable"},
			"servers": map[string]any{"web": map[string]any{"auth": map[string]any{"per": per}}},
		})
	}
	configure("first-canary", "principal")
	_, at := h.up(t)
	_, said := post(t, newClient(t), at, "first-canary", "tools/call", "web__toolgate_sign_in", `"name":"web__toolgate_sign_in","arguments":{},`)
	address, b := linkIn.FindString(string(said)), newBrowser(t)
	prove := func(key string) {
		t.Helper()
		_, text := b.open(t, address)
		if status, text := b.submit(t, address, text, url.Values{"proof": {key}}); status != http.StatusOK || !strings.Contains(text, "Signs in at") {
			t.Fatalf("%s is answered %d: %s", key, status, text)
		}
	}
	prove("first-canary")
	configure("other-canary", "principal")
	h.ok(t, "reload", h.file)
	if status, text := b.open(t, address); status != http.StatusOK || !strings.Contains(text, "Who are you?") {
		t.Errorf("who has proven it with a key that is gone is answered %d: %s", status, text)
	}
	prove("other-canary")
	_, form := b.open(t, address)
	configure("other-canary", "shared")
	h.ok(t, "reload", h.file)
	if status, text := b.open(t, address); status != http.StatusForbidden || !strings.Contains(text, "everyone") {
		t.Errorf("a link to what all share is answered %d: %s", status, text)
	}
	if status, text := b.submit(t, address, form, nil); status != http.StatusForbidden || len(a.Requests("/authorize")) != 0 {
		t.Errorf("a caller signs in for everyone: %d: %s", status, text)
	}
}
