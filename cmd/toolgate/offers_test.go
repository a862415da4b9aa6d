//go:build !windows

package main

import (
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
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
	c := r.client(t, &options{})
	server, _ := mcp.LookupString([]byte(text(t, c, "toolgate__add_server", `{"name":"a","arguments":{"word":"one"}}`)), "server")
	if states(r)[server] != "ready" {
		t.Fatalf("%q: %v", server, states(r))
	}
	h.policy(t, "package toolgate\n\ndecision :=\n")
	if err := r.RemoveServer(t.Context(), server); err == nil {
		t.Error("no word of the broken policy")
	}
	h.policy(t, openPolicy)
	eventually(t, "it is removed", func() bool { _, there := states(r)[server]; return !there })
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
			if _, err := r.reload(true); err != nil {
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
			for n := range 15 {
				work(n)
			}
		})
	}
	for _, word := range []string{"one", "two"} {
		c := r.client(t, &options{})
		all.Go(func() {
			for range 4 {
				tried(t.Context(), c, "toolgate__add_server", `{"name":"a","arguments":{"word":"`+word+`"}}`)
				list, err := r.AddedServers(t.Context())
				if err != nil {
					t.Error(err)
				}
				for _, s := range list {
					name := addedNamespace(s.Offer, s.Server) + "__pid"
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
