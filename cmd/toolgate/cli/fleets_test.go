//go:build !windows

package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// TestEachCallerSignsIn has two callers sign in to one server by links of their own,
// and make calls side by side: each carries its caller's token, and each is listed
// what the server lists to them.
func TestEachCallerSignsIn(t *testing.T) {
	h, a := newHome(t), oauthtest.New(t)
	a.Rotate = true
	s := oauthtest.NewServer(t, a)
	s.Tools = func(user string) []string { return []string{"only_" + user} }
	var keys []any
	for _, who := range []string{"alice", "bob", "carol"} {
		keys = append(keys, map[string]any{"id": who, "sha256": sum("canary-key-of-" + who), "subject": who})
	}
	h.write(t, servers{"web": {"url": s.URL}}, map[string]any{
		"auth": map[string]any{"keys": keys}, "gate": map[string]any{"open": true}, "registry": map[string]any{"on_new": "enable"},
		"servers": map[string]any{"web": map[string]any{"auth": map[string]any{"per": "principal"}}},
	})
	p, at := h.up(t)
	client := newClient(t)
	ask := func(who, method, name, params string) string {
		t.Helper()
		status, text := post(t, client, at, "canary-key-of-"+who, method, name, params)
		if status != http.StatusOK || strings.Contains(string(text), oauthtest.Evil) {
			t.Errorf("%s is answered %d: %s", who, status, text)
		}
		return string(text)
	}
	call := func(who, tool, text string) string {
		return ask(who, "tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":{"text":%q},`, tool, text))
	}
	for _, who := range []string{"alice", "bob"} {
		if got := ask(who, "tools/list", "", ""); !strings.Contains(got, "web__toolgate_sign_in") || strings.Contains(got, "only_") {
			t.Errorf("before the login %s is listed %s", who, got)
		}
		got := call(who, "web__toolgate_sign_in", "")
		address := linkIn.FindString(got)
		if kind, _ := mcp.LookupString([]byte(got), "result", "_meta", "dev.toolgate/refusal", "kind"); address == "" || kind != "needs_login" {
			t.Fatalf("%s is answered %s", who, got)
		}
		a.User = who
		thief := newBrowser(t)
		_, text := thief.open(t, address)
		if status, text := thief.submit(t, address, text, url.Values{"proof": {"canary-key-of-carol"}}); status != http.StatusForbidden || !strings.Contains(text, "somebody else") {
			t.Errorf("another person's browser is answered %d: %s", status, text)
		}
		if n := len(a.Requests("/authorize")); n != map[string]int{"alice": 0, "bob": 1}[who] {
			t.Errorf("another person got to the authorization server")
		}
		own := newBrowser(t)
		_, text = own.open(t, address)
		_, text = own.submit(t, address, text, url.Values{"proof": {"canary-key-of-" + who}})
		if status, text := own.submit(t, address, text, nil); status != http.StatusOK {
			t.Fatalf("the login of %s ends with %d: %s", who, status, text)
		}
		testwait.Until(t, patience, "the tools of "+who, func() bool { return strings.Contains(ask(who, "tools/list", "", ""), "only_"+who) })
	}
	for who, other := range map[string]string{"alice": "bob", "bob": "alice"} {
		if got := ask(who, "tools/list", "", ""); strings.Contains(got, "only_"+other) || strings.Contains(got, "sign_in") {
			t.Errorf("%s is listed %s", who, got)
		}
		if got, none := call(who, "web__only_"+other, ""), call(who, "web__nothing", ""); strings.ReplaceAll(got, "only_"+other, "nothing") != none {
			t.Errorf("what is %s's is to %s %s, and what is not there %s", other, who, got, none)
		}
	}
	if got := ask("carol", "tools/list", "", ""); strings.Contains(got, "only_") || !strings.Contains(got, "sign_in") {
		t.Errorf("carol is listed %s", got)
	}
	var all sync.WaitGroup
	turns := make(chan int, 500)
	for i := range 500 {
		turns <- i
	}
	close(turns)
	for range 8 {
		all.Go(func() {
			for i := range turns {
				who := []string{"alice", "bob"}[i%2]
				if got := call(who, "web__echo", fmt.Sprint(i)); !strings.Contains(got, fmt.Sprintf(`"%s:%d"`, who, i)) {
					t.Errorf("call %d of %s is answered %s", i, who, got)
				}
				if i == 250 {
					a.Revoke(false) // in the midst of it, both tokens end
				}
			}
		})
	}
	all.Wait()
	users := map[string]bool{}
	for _, r := range a.Requests("/token") {
		users[r.Form.Get("grant_type")] = true
	}
	if n := len(a.Requests("/token")); n != 4 || !users["refresh_token"] {
		t.Errorf("%d tokens were asked for, want two by codes and two by a refresh of each: %v", n, users)
	}
	if got := h.ok(t, "logout", "web", "--as", "alice", "--file", h.file); !strings.Contains(got, "signed out") {
		t.Errorf("logout: %s", got)
	}
	if got := call("bob", "web__echo", "still"); !strings.Contains(got, "bob:still") {
		t.Errorf("with the login of alice that of bob has ended: %s", got)
	}
	if got := call("alice", "web__echo", "gone"); strings.Contains(got, "alice:gone") {
		t.Errorf("alice is still signed in: %s", got)
	}
	for _, r := range s.Requests() {
		if strings.Contains(fmt.Sprint(r), "canary-key-of-") {
			t.Error("a caller's own key reaches the server")
		}
	}
	p.stop(t, syscall.SIGTERM)
	requireNoSecret(t, h, p, append(a.Secrets(), "canary-key-of-alice", "canary-key-of-bob", oauthtest.Evil))
}

// TestKeysAreEntered has a key entered on the command line, refused, and entered
// again on the page that a call leads to.
func TestKeysAreEntered(t *testing.T) {
	h := newHome(t)
	s := oauthtest.NewServer(t)
	good := "first-canary"
	var mu sync.Mutex
	s.Accept = func(r *http.Request) (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		return "key", r.Header.Get("X-Api-Key") == good
	}
	h.write(t, servers{"web": {"url": s.URL}}, map[string]any{"servers": map[string]any{
		"web": map[string]any{"auth": map[string]any{"mode": "key", "header": "X-Api-Key"}},
	}})
	p, _ := h.up(t)
	testwait.Until(t, patience, "the state", func() bool { return h.servers(t)["web"].State == "needs_login" })
	if o := h.runWith(t, "first-canary\n", "login", "web", "--file", h.file); o.code != exitOK {
		t.Fatalf("login: %+v", o)
	}
	h.works(t, "key")
	mu.Lock()
	good = "second-canary"
	mu.Unlock()
	address := h.link(t, "web__echo")
	b := newBrowser(t)
	_, text := b.open(t, address)
	if status, text := b.submit(t, address, text, url.Values{"key": {"second-canary"}}); status != http.StatusOK {
		t.Fatalf("the page answers %d: %s", status, text)
	}
	h.works(t, "key")
	p.stop(t, syscall.SIGTERM)
	requireNoSecret(t, h, p, []string{"first-canary", "second-canary", oauthtest.Evil})
}
