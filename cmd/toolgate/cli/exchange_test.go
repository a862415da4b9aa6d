//go:build !windows

package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/oauth"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

const (
	exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"
	bearerGrant   = "urn:ietf:params:oauth:grant-type:jwt-bearer"
)

// tokens answers the token requests of an authorization server.
type tokens func(w http.ResponseWriter, r *http.Request) (answered bool)

// grants answers with one token, of the type that was asked for.
func grants(w http.ResponseWriter, token, issued, kind string) bool {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "issued_token_type": issued, "token_type": kind, "expires_in": 300})
	return true
}

// refuses answers with an error code, and with words that nobody may see.
func refuses(w http.ResponseWriter, code string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": code, "error_description": oauthtest.Evil})
	return true
}

// wants holds a token request to its fields, and to the client that makes it.
func wants(t *testing.T, r *http.Request, id, secret string, fields map[string]string) {
	t.Helper()
	if gotID, gotSecret, _ := r.BasicAuth(); gotID != id || gotSecret != secret {
		t.Errorf("the client is %q with the secret %q, want %q with %q", gotID, gotSecret, id, secret)
	}
	for name, want := range fields {
		if got := r.PostForm[name]; want == "" && len(got) != 0 || want != "" && (len(got) != 1 || got[0] != want) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// exchangeSettings are a server whose token is traded for what a file holds.
func exchangeSettings(a, idp *oauthtest.Authority, grant, file string) map[string]any {
	x := map[string]any{"issuer": idp.Issuer, "client": map[string]any{"id": "at-idp", "secret": "canary-secret-at-idp"}, "grant": grant}
	if file != "" {
		x["subject"] = file
	}
	return map[string]any{"auth": map[string]any{
		"mode": "exchange", "issuer": a.Issuer, "client": map[string]any{"id": "at-server", "secret": "canary-secret-at-server"},
		"scopes": []string{"read"}, "exchange": x,
	}}
}

// TestExchangeForAssertion has an identity provider give an assertion for the token
// in a file, and the server's authorization server a token for the assertion
// (enterprise-managed authorization). The file is read again at each exchange.
func TestExchangeForAssertion(t *testing.T) {
	h, a, idp := newHome(t), oauthtest.New(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	subject := h.path("subject")
	idp.Token = func(w http.ResponseWriter, r *http.Request) bool {
		text, _ := os.ReadFile(subject)
		wants(t, r, "at-idp", "canary-secret-at-idp", map[string]string{
			"grant_type": exchangeGrant, "subject_token": strings.TrimSpace(string(text)), "subject_token_type": oauth.TypeID,
			"requested_token_type": oauth.TypeIDJAG, "audience": a.Issuer, "resource": s.URL, "scope": "read",
		})
		return grants(w, "canary-assertion", oauth.TypeIDJAG, "N_A")
	}
	a.Token = func(_ http.ResponseWriter, r *http.Request) bool {
		wants(t, r, "at-server", "canary-secret-at-server", map[string]string{
			"grant_type": bearerGrant, "assertion": "canary-assertion", "subject_token": "", "scope": "read",
		})
		return false // the authority gives a token
	}
	h.write(t, servers{"web": {"url": s.URL}}, map[string]any{"servers": map[string]any{"web": exchangeSettings(a, idp, "id_jag", "subject")}})
	if err := os.WriteFile(subject, []byte("canary-id-token-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _ := h.up(t)
	for _, next := range []string{"canary-id-token-2", ""} {
		if got := h.ok(t, "call", "web__echo", "--file", h.file, "text=hello"); !strings.Contains(got, "exchanged canary-assertion:hello") {
			t.Errorf("answered %q", got)
		}
		if next != "" {
			if err := os.WriteFile(subject, []byte(next), 0o600); err != nil {
				t.Fatal(err)
			}
			a.Revoke(true)
		}
	}
	if n, m := len(idp.Requests("/token")), len(a.Requests("/token")); n != 2 || m != 2 {
		t.Errorf("%d exchanges and %d grants, want one each and one more after the token was revoked", n, m)
	}
	if n := len(a.Requests("/register")) + len(idp.Requests("/register")) + len(a.Requests("/authorize")); n != 0 {
		t.Errorf("somebody registers or signs in %d times", n)
	}
	p.stop(t, syscall.SIGTERM)
	requireNoSecret(t, h, p, append(a.Secrets(), "canary-", oauthtest.Evil))
	for _, r := range s.Requests() {
		if strings.Contains(r.Get("Authorization"), "canary-") {
			t.Error("the server is sent what was traded")
		}
	}
}

// TestExchangeForToken has an identity provider trade the token in a file for an
// access token of the server (RFC 8693). The server's own authorization server is
// asked for none.
func TestExchangeForToken(t *testing.T) {
	h, a, idp := newHome(t), oauthtest.New(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	s.Accept = func(r *http.Request) (string, bool) {
		return "traded", r.Header.Get("Authorization") == "Bearer canary-traded"
	}
	idp.Token = func(w http.ResponseWriter, r *http.Request) bool {
		wants(t, r, "at-idp", "canary-secret-at-idp", map[string]string{
			"grant_type": exchangeGrant, "subject_token": "canary-subject", "subject_token_type": oauth.TypeJWT,
			"requested_token_type": oauth.TypeAccess, "audience": "the server", "resource": s.URL, "scope": "read",
		})
		return grants(w, "canary-traded", oauth.TypeAccess, "Bearer")
	}
	set := exchangeSettings(a, idp, "access_token", "subject")
	own := set["auth"].(map[string]any)
	delete(own, "client")
	x := own["exchange"].(map[string]any)
	x["audience"], x["subject_type"] = "the server", "jwt"
	h.write(t, servers{"web": {"url": s.URL}}, map[string]any{"servers": map[string]any{"web": set}})
	if err := os.WriteFile(h.path("subject"), []byte("canary-subject"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _ := h.up(t)
	for range 2 {
		if got := h.ok(t, "call", "web__echo", "--file", h.file, "text=hello"); !strings.Contains(got, "traded:hello") {
			t.Errorf("answered %q", got)
		}
	}
	if n, m := len(idp.Requests("/token")), len(a.Requests("/token")); n != 1 || m != 0 {
		t.Errorf("%d exchanges and %d requests elsewhere, want one and none", n, m)
	}
	p.stop(t, syscall.SIGTERM)
	requireNoSecret(t, h, p, []string{"canary-", oauthtest.Evil})
}

// TestExchangeRefused has answers of an identity provider that are worth nothing:
// the server is sent none of them, and the caller reads neither the provider's
// words nor what was to be traded.
func TestExchangeRefused(t *testing.T) {
	for name, answer := range map[string]tokens{
		"refused": func(w http.ResponseWriter, _ *http.Request) bool { return refuses(w, "invalid_grant") },
		"other type": func(w http.ResponseWriter, _ *http.Request) bool {
			return grants(w, "canary-x", oauth.TypeAccess, "N_A")
		},
		"other scheme": func(w http.ResponseWriter, _ *http.Request) bool {
			return grants(w, "canary-x", oauth.TypeIDJAG, "DPoP")
		},
		"no token": func(w http.ResponseWriter, _ *http.Request) bool { return grants(w, "", oauth.TypeIDJAG, "N_A") },
		"two tokens": func(w http.ResponseWriter, _ *http.Request) bool {
			return grants(w, "canary-x y", oauth.TypeIDJAG, "N_A")
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			return true
		},
		"no subject": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, a, idp := newHome(t), oauthtest.New(t), oauthtest.New(t)
			s := oauthtest.NewServer(t, a)
			idp.Token = answer
			h.write(t, servers{"web": {"url": s.URL}}, map[string]any{"servers": map[string]any{"web": exchangeSettings(a, idp, "id_jag", "subject")}})
			if answer != nil {
				if err := os.WriteFile(h.path("subject"), []byte("canary-subject"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p, _ := h.up(t)
			o := h.run(t, "call", "web__echo", "--file", h.file, "text=hello")
			if o.code == exitOK || strings.Contains(o.stdout+o.stderr, "canary") {
				t.Errorf("the call ends with %d:\n%s%s", o.code, o.stdout, o.stderr)
			}
			if n := len(a.Requests("/token")) + len(idp.Requests("/elsewhere")); n != 0 {
				t.Errorf("%d requests went on with it", n)
			}
			if n := len(idp.Requests("/token")); answer == nil && n != 0 || n > 20 {
				t.Errorf("the provider was asked %d times", n)
			}
			p.stop(t, syscall.SIGTERM)
			requireNoSecret(t, h, p, []string{"canary-", oauthtest.Evil})
			for _, r := range s.Requests() {
				if r.Get("Authorization") != "" {
					t.Errorf("the server was sent %q", r.Get("Authorization"))
				}
			}
		})
	}
}

// TestExchangeOfCallers has each caller's own token traded, and nobody else's; what
// no issuer gave is traded for nothing.
func TestExchangeOfCallers(t *testing.T) {
	h, a, idp, callers := newHome(t), oauthtest.New(t), oauthtest.New(t), newAuthority(t, "k1")
	s := oauthtest.NewServer(t, a)
	traded := map[string]string{} // who is meant, by the token that is traded
	idp.Token = func(w http.ResponseWriter, r *http.Request) bool {
		wants(t, r, "at-idp", "canary-secret-at-idp", map[string]string{"grant_type": exchangeGrant, "subject_token_type": oauth.TypeAccess})
		who := traded[r.PostForm.Get("subject_token")]
		if who == "" {
			return refuses(w, "invalid_grant")
		}
		return grants(w, "canary-assertion-"+who, oauth.TypeIDJAG, "N_A")
	}
	set := exchangeSettings(a, idp, "id_jag", "")
	set["auth"].(map[string]any)["exchange"].(map[string]any)["subject_type"] = "access_token"
	h.write(t, servers{"web": {"url": s.URL}}, map[string]any{
		"listen": map[string]any{"public_url": public},
		"auth": map[string]any{
			"jwt":  []any{map[string]any{"issuer": callers.issuer}},
			"keys": []any{map[string]any{"id": "ci", "sha256": sum("canary-key-of-ci"), "subject": "ci"}},
		},
		"gate": map[string]any{"open": true}, "registry": map[string]any{"on_new": "enable"},
		"servers": map[string]any{"web": set},
	})
	of := map[string]string{}
	for _, who := range []string{"alice", "bob"} {
		of[who] = callers.token(t, "k1", public+"/mcp", map[string]any{"sub": who})
		traded[of[who]] = who
	}
	address := testport.Address(t) // what the gateway says is the public one
	p, _ := h.up(t, "--listen", address)
	at, client := "http://"+address, newClient(t)
	call := func(token, text string) string {
		t.Helper()
		_, answer := post(t, client, at, token, "tools/call", "web__echo", fmt.Sprintf(`"name":"web__echo","arguments":{"text":%q},`, text))
		if strings.Contains(string(answer), oauthtest.Evil) {
			t.Errorf("the client is answered %s", answer)
		}
		return string(answer)
	}
	for who, token := range of {
		testwait.Until(t, patience, "the tools of "+who, func() bool {
			_, answer := post(t, client, at, token, "tools/list", "", "")
			return strings.Contains(string(answer), "web__echo")
		})
	}
	for i := range 6 {
		who := []string{"alice", "bob"}[i%2]
		want := fmt.Sprintf("exchanged canary-assertion-%s:%d", who, i)
		if got := call(of[who], fmt.Sprint(i)); !strings.Contains(got, want) {
			t.Errorf("%s is answered %s", who, got)
		}
	}
	if got := call("canary-key-of-ci", "key"); strings.Contains(got, ":key") {
		t.Errorf("a caller with a key is answered %s", got)
	}
	if n := len(idp.Requests("/token")); n != 2 {
		t.Errorf("%d exchanges, want one of each caller's token", n)
	}
	p.stop(t, syscall.SIGTERM)
	requireNoSecret(t, h, p, append(a.Secrets(), "canary-", of["alice"], of["bob"], oauthtest.Evil))
	for _, r := range s.Requests() {
		if strings.Contains(r.Get("Authorization"), "canary") || traded[strings.TrimPrefix(r.Get("Authorization"), "Bearer ")] != "" {
			t.Error("the server is sent what was traded")
		}
	}
}
