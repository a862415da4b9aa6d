//go:build !windows

package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// slowLists has a server take a while for each of its lists.
func slowLists(s *oauthtest.Server, tools func(user string) []string) {
	s.Tools = func(user string) []string {
		<-time.After(200 * time.Millisecond)
		return tools(user)
	}
}

// TestCallsWithoutLists has callers who never list and only call: before their login
// they are sent to sign in, and right after it, and right after a restart, their calls
// wait for what they are listed. Nobody signs in twice.
func TestCallsWithoutLists(t *testing.T) {
	h, a := newHome(t), oauthtest.New(t)
	a.Rotate = true
	s := oauthtest.NewServer(t, a)
	slowLists(s, func(user string) []string { return []string{"only_" + user} })
	var keys []any
	people := []string{"alice", "bob"}
	for _, who := range append(people, "carol") {
		keys = append(keys, map[string]any{"id": who, "sha256": sum("canary-key-of-" + who), "subject": who})
	}
	h.write(t, servers{"web": {"url": s.URL}}, map[string]any{
		"auth": map[string]any{"keys": keys}, "gate": map[string]any{"open": true}, "registry": map[string]any{"on_new": "enable"},
		"servers": map[string]any{"web": map[string]any{"auth": map[string]any{"per": "principal"}}},
	})
	p, at := h.up(t)
	client := newClient(t)
	call := func(who, tool, text string) string {
		t.Helper()
		status, answer := post(t, client, at, "canary-key-of-"+who, "tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":{"text":%q},`, tool, text))
		if status != http.StatusOK || strings.Contains(string(answer), oauthtest.Evil) {
			t.Errorf("%s is answered %d: %s", who, status, answer)
		}
		return string(answer)
	}
	for _, who := range people {
		got := call(who, "web__only_"+who, "before")
		address := linkIn.FindString(got)
		if kind, _ := mcp.LookupString([]byte(got), "result", "_meta", "dev.toolgate/refusal", "kind"); address == "" || kind != "needs_login" {
			t.Fatalf("before the login %s is answered %s", who, got)
		}
		if other := call(who, "web__nothing", "before"); linkIn.FindString(other) == "" {
			t.Errorf("before the login %s learns what there is: %s", who, other)
		}
		a.User = who
		own := newBrowser(t)
		_, text := own.open(t, address)
		_, text = own.submit(t, address, text, url.Values{"proof": {"canary-key-of-" + who}})
		if status, text := own.submit(t, address, text, nil); status != http.StatusOK {
			t.Fatalf("the login of %s ends with %d: %s", who, status, text)
		}
		if got := call(who, "web__only_"+who, "now"); !strings.Contains(got, who+":now") {
			t.Errorf("right after the login %s is answered %s", who, got)
		}
	}
	p.stop(t, syscall.SIGTERM)

	p, at = h.up(t)
	for _, who := range people {
		if got := call(who, "web__only_"+who, "again"); !strings.Contains(got, who+":again") {
			t.Errorf("after the restart %s is answered %s", who, got)
		}
	}
	if got, none := call("alice", "web__only_bob", ""), call("alice", "web__nothing", ""); strings.ReplaceAll(got, "only_bob", "nothing") != none {
		t.Errorf("what is bob's is to alice %s, and what is not there %s", got, none)
	}
	if got := call("carol", "web__only_bob", ""); linkIn.FindString(got) == "" || strings.Contains(got, "bob:") {
		t.Errorf("who has not signed in is answered %s", got)
	}
	web := h.servers(t)["web"]
	if diff := cmp.Diff(&admin.SignIns{SignedIn: 2, Needed: 1, Who: []string{"carol"}}, web.SignIns); diff != "" {
		t.Errorf("ls (-want +got):\n%s", diff)
	}
	if got := h.ok(t, "ls", h.file); !strings.Contains(got, "to sign in: carol") {
		t.Errorf("ls prints %s", got)
	}
	if got := h.ok(t, "logins", "--file", h.file); strings.Count(got, "signed_in") != 2 || strings.Count(got, "needs_login") != 1 || !strings.Contains(got, "carol") {
		t.Errorf("logins prints %s", got)
	}
	if n := len(a.Requests("/authorize")); n != len(people) {
		t.Errorf("%d logins, want one of each", n)
	}
	p.stop(t, syscall.SIGTERM)
	requireNoSecret(t, h, p, append(a.Secrets(), "canary-key-of-", oauthtest.Evil))
}

// TestCallRightAfterLogin has a call of what was never listed follow a login on the
// command line at once.
func TestCallRightAfterLogin(t *testing.T) {
	h, a := newHome(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	slowLists(s, func(string) []string { return nil })
	h.write(t, servers{"web": {"url": s.URL}}, nil)
	h.up(t)
	testwait.Until(t, patience, "the state", func() bool { return h.servers(t)["web"].State == "needs_login" })
	h.link(t, "web__echo") // what nobody is listed yet
	for range 2 {
		p := h.start(t, "login", "web", "--no-browser", "--file", h.file)
		if status, text := newBrowser(t).open(t, p.says(t, p.out, `open  (http://\S+)`)[1]); status != http.StatusOK {
			t.Errorf("the browser ends with %d: %s", status, text)
		}
		if got := h.ok(t, "call", "web__echo", "--file", h.file, "text=now"); !strings.Contains(got, "somebody:now") {
			t.Errorf("answered %q", got)
		}
		if code := p.wait(t); code != exitOK {
			t.Errorf("login ends with %d: %s", code, p.err)
		}
		h.ok(t, "logout", "web", "--file", h.file)
		h.link(t, "web__echo")
	}
}
