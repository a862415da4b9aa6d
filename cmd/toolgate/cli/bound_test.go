//go:build !windows

package cli

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// requireBound holds an authorization server and a server to what they saw: no proof
// twice, no bound token without one, all of as many keys.
func requireBound(t *testing.T, a *oauthtest.Authority, s *oauthtest.Server, keys int) {
	t.Helper()
	for _, wrong := range append(a.Proofs.Wrong(), s.Proofs.Wrong()...) {
		t.Error(wrong)
	}
	for name, p := range map[string]*oauthtest.Proofs{"the authorization server": a.Proofs, "the server": s.Proofs} {
		if proofs, got := p.Seen(); got != keys || proofs == 0 {
			t.Errorf("%s saw %d proofs of %d keys, want %d keys", name, proofs, got, keys)
		}
	}
	for _, r := range s.Requests() {
		if shown := r.Get("Authorization"); strings.HasPrefix(shown, "Bearer ") {
			t.Errorf("the server is sent %.20s", shown)
		}
	}
}

// TestBoundCalls has 50 calls at once before a server that wants a nonce in each proof,
// which is good once: each is run once and charged once. A restart keeps the token and
// its key.
func TestBoundCalls(t *testing.T) {
	h, a := newHome(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	a.Proofs, s.Proofs = oauthtest.Nonces(), oauthtest.Nonces()
	list, settings := spending(s.URL, "", 1000)
	settings["servers"] = map[string]any{
		"api": map[string]any{"auth": map[string]any{"mode": "client_credentials", "issuer": a.Issuer, "client": map[string]any{"id": "robot", "secret": "canary-of-the-secret"}}},
	}
	h.write(t, list, settings)
	p, at := h.up(t)
	client := newClient(t)
	testwait.Until(t, patience, "the tools", func() bool { return strings.Contains(h.ok(t, "tools", h.file), "api__echo") })
	const calls = 50
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			status, answer := post(t, client, at, "", "tools/call", "api__echo", fmt.Sprintf(`"name":"api__echo","arguments":{"text":"n%d"},`, i))
			if status != http.StatusOK || !strings.Contains(string(answer), fmt.Sprintf(`robot:n%d"`, i)) {
				t.Errorf("call %d is answered %d %s", i, status, answer)
			}
		})
	}
	all.Wait()
	if n := s.Calls(); n != calls {
		t.Errorf("%d calls were run, want %d", n, calls)
	}
	if use := h.uses(t); len(use) != 1 || use[0].Used != calls {
		t.Errorf("charged %+v, want %d", use, calls)
	}
	p.stop(t, syscall.SIGTERM)
	before := len(a.Requests("/token"))
	again, _ := h.up(t)
	if got := h.ok(t, "call", "api__echo", "--file", h.file, "text=hello"); !strings.Contains(got, "robot:hello") {
		t.Errorf("answered %q", got)
	}
	if n := len(a.Requests("/token")); n != before {
		t.Errorf("the restart asks for %d tokens", n-before)
	}
	again.stop(t, syscall.SIGTERM)
	requireBound(t, a, s, 1)
	for _, own := range []*process{p, again} {
		requireNoSecret(t, h, own, append(a.Secrets(), "canary-of-the-secret", oauthtest.Evil))
	}
}

// TestBoundSignIn has a person sign in at an authorization server that gives bound
// tokens alone, and the token renewed after a restart: by one key.
func TestBoundSignIn(t *testing.T) {
	h, a := newHome(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	a.Rotate, a.ProofsOnly, a.Proofs, s.Proofs = true, true, oauthtest.Nonces(), &oauthtest.Proofs{}
	h.write(t, servers{"web": {"url": s.URL}}, nil)
	p, _ := h.up(t)
	testwait.Until(t, patience, "the tool that signs in", func() bool {
		return strings.Contains(h.ok(t, "tools", h.file), "web__toolgate_sign_in")
	})
	newBrowser(t).signIn(t, h.link(t, "web__toolgate_sign_in"))
	h.works(t, "somebody")
	p.stop(t, syscall.SIGTERM)
	a.Revoke(false)
	again, _ := h.up(t)
	h.works(t, "somebody")
	again.stop(t, syscall.SIGTERM)
	requireBound(t, a, s, 1)
	requireNoSecret(t, h, again, append(a.Secrets(), oauthtest.Evil))
}

// TestBoundRequired has an authorization server give tokens that anybody could use
// where they have to be bound: the server is sent none.
func TestBoundRequired(t *testing.T) {
	t.Parallel()
	h, a := newHome(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	h.write(t, servers{"web": {"url": s.URL}}, map[string]any{"servers": map[string]any{"web": map[string]any{
		"auth": map[string]any{"mode": "client_credentials", "issuer": a.Issuer, "dpop": "required", "client": map[string]any{"id": "robot", "secret": "x"}},
	}}})
	p, _ := h.up(t)
	o := h.run(t, "call", "web__echo", "--file", h.file, "text=hello")
	if o.code == exitOK {
		t.Errorf("answered %s", o.stdout)
	}
	if got := h.servers(t)["web"]; !strings.Contains(got.Reason, "bound to a key") {
		t.Errorf("the server is %s: %s", got.State, got.Reason)
	}
	p.stop(t, syscall.SIGTERM)
	for _, r := range s.Requests() {
		if r.Get("Authorization") != "" {
			t.Errorf("the server is sent %.20s", r.Get("Authorization"))
		}
	}
}
