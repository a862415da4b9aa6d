//go:build !windows

package cli

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/oauth"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// TestExchangeOfTokens has several tokens of one caller: each request shows the
// server what its own token was traded for, whichever was used before, and also
// when another of them is refused by the identity provider.
func TestExchangeOfTokens(t *testing.T) {
	h, a, idp, callers := newHome(t), oauthtest.New(t), oauthtest.New(t), newAuthority(t, "k1")
	s := oauthtest.NewServer(t, a)
	traded := map[string]string{} // what a token is, by its text
	idp.Token = func(w http.ResponseWriter, r *http.Request) bool {
		which := traded[r.PostForm.Get("subject_token")]
		if which == "" || which == "refused" {
			return refuses(w, "invalid_grant")
		}
		return grants(w, "canary-traded-"+which, oauth.TypeAccess, "Bearer")
	}
	s.Accept = func(r *http.Request) (string, bool) {
		return strings.CutPrefix(r.Header.Get("Authorization"), "Bearer canary-traded-")
	}
	set := exchangeSettings(a, idp, "access_token", "")
	delete(set["auth"].(map[string]any), "client")
	h.write(t, servers{"web": {"url": s.URL}}, map[string]any{
		"listen": map[string]any{"public_url": public},
		"auth":   map[string]any{"jwt": []any{map[string]any{"issuer": callers.issuer}}},
		"gate":   map[string]any{"open": true}, "registry": map[string]any{"on_new": "enable"},
		"servers": map[string]any{"web": set},
	})
	of := map[string]string{}
	for which, claims := range map[string]map[string]any{
		"broad":   {"sub": "alice", "scope": "read admin"},
		"narrow":  {"sub": "alice", "scope": "read"},
		"again":   {"sub": "alice", "scope": "read", "jti": "another"}, // with the rights of the narrow one
		"agent":   {"sub": "alice", "scope": "read", "act": map[string]any{"sub": "agent"}},
		"refused": {"sub": "alice", "scope": "admin"},
	} {
		of[which] = callers.token(t, "k1", public+"/mcp", claims)
		traded[of[which]] = which
	}
	address := testport.Address(t)
	p, _ := h.up(t, "--listen", address)
	at, client := "http://"+address, newClient(t)
	call := func(which, text string) string {
		t.Helper()
		_, answer := post(t, client, at, of[which], "tools/call", "web__echo", fmt.Sprintf(`"name":"web__echo","arguments":{"text":%q},`, text))
		return string(answer)
	}
	testwait.Until(t, patience, "the tools", func() bool {
		_, answer := post(t, client, at, of["broad"], "tools/list", "", "")
		return strings.Contains(string(answer), "web__echo")
	})
	for i := range 3 {
		for _, which := range []string{"broad", "narrow", "again", "agent", "refused"} {
			text := fmt.Sprintf("%s-%d", which, i)
			got := call(which, text)
			if ran := strings.Contains(got, which+":"+text); ran != (which != "refused") || strings.Count(got, ":"+text) > 1 {
				t.Errorf("the %s token is answered %s", which, got)
			}
		}
	}
	p.stop(t, syscall.SIGTERM)
	var secrets []string
	for _, token := range of {
		secrets = append(secrets, token)
	}
	requireNoSecret(t, h, p, append(secrets, "canary-"))
}
