//go:build !windows

package daemon_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/daemon/added"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/raced"
	"github.com/toolgate/toolgate/internal/testwait"
)

const openPolicy = "package toolgate\n\nimport rego.v1\n\ndecision := true\n"

// offering is a running gateway that offers a server, behind a policy.
func offering(t *testing.T) (*home, *running) {
	t.Helper()
	h := newHome(t)
	if err := os.Mkdir(h.path("policies"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.policy(t, openPolicy)
	h.write(t, servers{"a": fake("{word}")}, map[string]any{
		"servers":   map[string]any{"a": map[string]any{"offer": map[string]any{"description": "a server", "arguments": map[string]any{"word": []string{"one", "two"}}}}},
		"opa":       map[string]any{"path": h.path("policies")},
		"approvals": map[string]any{"wait": "1s"},
	})
	return h, h.newRunning(t)
}

func (h *home) policy(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(h.path("policies/p.rego"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A server that was removed while the gate could not be made anew ends when it
// can be, though nothing else changes.
func TestRemovedWhileThePolicyIsBroken(t *testing.T) {
	t.Parallel()
	h, r := offering(t)
	c := r.client(t)
	server, _ := mcp.LookupString([]byte(text(t, c, "toolgate__add_server", `{"name":"a","arguments":{"word":"one"}}`)), "server")
	if states(r)[server] != "ready" {
		t.Fatalf("%q: %v", server, states(r))
	}
	h.policy(t, "package toolgate\n\ndecision :=\n")
	if err := r.RemoveServer(t.Context(), server); err == nil {
		t.Error("no word of the broken policy")
	}
	h.policy(t, openPolicy)
	testwait.Until(t, patience, "it is removed", func() bool { _, there := states(r)[server]; return !there })
}

// Servers come and go, the file is read again and the mode changes while calls
// are made: none is answered but by its server, a refusal or as unknown, and what
// is removed is gone.
func TestServersComeAndGo(t *testing.T) {
	t.Parallel()
	_, r := offering(t)
	var all sync.WaitGroup
	for _, work := range []func(n int){
		func(int) {
			if _, err := r.TakeFile(true); err != nil {
				t.Error(err)
			}
		},
		func(n int) {
			if _, err := r.SetMode(t.Context(), []string{"ALERT", "NORMAL", "RECOVERY"}[n%3], "round "+strconv.Itoa(n)); err != nil {
				t.Error(err)
			}
		},
		func(int) { _ = r.Status() },
	} {
		all.Go(func() {
			for n := range raced.Times(15, 5) {
				work(n)
			}
		})
	}
	for _, word := range []string{"one", "two"} {
		c := r.client(t)
		all.Go(func() {
			for range 4 {
				tried(t.Context(), c, "toolgate__add_server", `{"name":"a","arguments":{"word":"`+word+`"}}`)
				list, err := r.AddedServers(t.Context())
				if err != nil {
					t.Error(err)
				}
				for _, s := range list {
					name := added.Namespace(s.Offer, s.Server) + "__pid"
					switch got := tried(t.Context(), c, name, "{}"); got {
					case "ok", "approval_pending", "approval_denied", "Unknown tool: " + name:
					default:
						t.Errorf("%s: %s", name, got)
					}
				}
			}
		})
	}
	all.Wait()
	if _, err := r.SetMode(t.Context(), "NORMAL", "the end"); err != nil {
		t.Fatal(err)
	}
	list, err := r.AddedServers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if err := r.RemoveServer(t.Context(), s.Server); err != nil {
			t.Error(err)
		}
	}
	if left := states(r); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Who may not add a server does not hear of it: find_servers leaves it out, and
// add_server answers as for a name that nothing has. Where only some arguments
// are denied, the refusal says so.
func TestOffersAreShownToWhoMayAdd(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if err := os.Mkdir(h.path("policies"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.policy(t, `package toolgate

import rego.v1

default decision := false

decision if input.action != "tool.enable"

decision if {
	input.server == "open"
	input.persona_id == "dev"
}

decision if {
	input.server == "some"
	input.args.arguments.word == "one"
}
`)
	offer := func(about string) map[string]any {
		return map[string]any{"offer": map[string]any{"description": about, "arguments": map[string]any{"word": []string{"one", "two"}}}}
	}
	section := withKeys("dev", "bot")
	for _, k := range section["auth"].(map[string]any)["keys"].([]any) {
		k.(map[string]any)["persona"] = k.(map[string]any)["id"]
	}
	section["servers"] = map[string]any{"open": offer("for developers"), "some": offer("with one"), "none": offer("for nobody")}
	section["opa"] = map[string]any{"path": h.path("policies")}
	h.write(t, servers{"open": fake("{word}"), "some": fake("{word}"), "none": fake("{word}")}, section)
	r := h.newRunning(t)
	find := func(key string) string {
		t.Helper()
		got := r.use(t, key, "toolgate__find_servers", "{}").body
		var shown []string
		list := mcp.Lookup([]byte(got), "result", "structuredContent", "servers")
		for e := range mcp.Elements(list) {
			name, _ := mcp.LookupString(e.Of(list), "name")
			shown = append(shown, name)
		}
		return strings.Join(shown, " ")
	}
	if got := find("dev"); got != "open some" {
		t.Errorf("a developer finds %q", got)
	}
	if got := find("bot"); got != "some" {
		t.Errorf("a bot finds %q", got)
	}
	add := func(key, name, word string) string {
		t.Helper()
		got := r.use(t, key, "toolgate__add_server", fmt.Sprintf(`{"name":%q,"arguments":{"word":%q}}`, name, word))
		return strings.ReplaceAll(got.body, name, "NAME")
	}
	unknown := add("bot", "nothing7", "one")
	if !strings.Contains(unknown, "There is no server") {
		t.Fatalf("a name that nothing has: %s", unknown)
	}
	for _, name := range []string{"open", "none"} {
		if got := add("bot", name, "one"); got != unknown {
			t.Errorf("%s: %s, and of a name that nothing has: %s", name, got, unknown)
		}
	}
	if got := add("dev", "none", "one"); got != unknown {
		t.Errorf("none: %s", got)
	}
	if got := add("bot", "some", "two"); !strings.Contains(got, `"kind":"denied"`) {
		t.Errorf("with other arguments: %s", got)
	}
	for _, who := range []string{"dev", "bot"} {
		if got := add(who, "some", "one"); !strings.Contains(got, `"prefix"`) {
			t.Errorf("%s adds some: %s", who, got)
		}
	}
	if got := add("dev", "open", "two"); !strings.Contains(got, `"prefix"`) {
		t.Errorf("a developer adds open: %s", got)
	}
}
