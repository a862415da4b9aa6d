//go:build !windows

package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/spicedb/spicedbtest"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// A SpiceDB that does not answer, or answers that it cannot, fails closed: calls
// and lists are errors, never an empty list, /readyz is red with one word, and
// all of it ends by itself.
func TestSpiceDBOutages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		fail, recover func(*testing.T, *spicedbtest.Server)
		kind          string
	}{
		{
			"killed", func(_ *testing.T, s *spicedbtest.Server) { s.Stop() },
			func(t *testing.T, s *spicedbtest.Server) { s.Start(t) }, "1001 authz_unavailable",
		},
		{
			"frozen", func(_ *testing.T, s *spicedbtest.Server) {
				s.Before(spicedbtest.Hang)
				s.BreakWatch(errors.New("frozen"))
			},
			func(_ *testing.T, s *spicedbtest.Server) { s.Before(nil) }, "1001 authz_unavailable",
		},
		{
			"another schema", func(_ *testing.T, s *spicedbtest.Server) { s.SetType("tool", nil) },
			func(_ *testing.T, s *spicedbtest.Server) {
				s.SetType("tool", []string{"execute", "executor", "server"})
			}, "1001 authz_misconfigured",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := spicedbtest.NewServer()
			s.Write(t, "tool:a__pid#executor@user:local")
			h := newHome(t)
			section := askingBriefly(s.Start(t))
			h.write(t, servers{"a": fake()}, section)
			r := h.newRunning(t)
			c := r.client(t)
			ready := func() bool { code, word := readyz(r); return code == http.StatusOK && word == "ok" }
			testwait.Until(t, patience, "the gateway is ready", ready)
			if list, err := names(t, c); err != nil || !slices.Equal(list, []string{"a__pid"}) {
				t.Fatalf("listed %v, %v", list, err)
			}
			if got := tried(t.Context(), c, "a__pid", "{}"); got != "ok" {
				t.Fatalf("a call: %s", got)
			}
			if got := tried(t.Context(), c, "a__echo", "{}"); got != "Unknown tool: a__echo" {
				t.Errorf("a tool without a relation: %s", got)
			}

			tt.fail(t, s)
			testwait.Until(t, patience, "calls are refused", func() bool { return tried(t.Context(), c, "a__pid", "{}") == tt.kind })
			// For up to a second, decisions on lists hold that were made before.
			testwait.Until(t, patience, "lists are refused", func() bool {
				list, err := names(t, c)
				fault, ok := errors.AsType[*mcp.Error](err)
				if err == nil && !slices.Equal(list, []string{"a__pid"}) || err != nil && (!ok || fault.Code != 1001) {
					t.Fatalf("the list: %v, %v", list, err)
				}
				return err != nil
			})
			if got := tried(t.Context(), c, "a__echo", "{}"); got != tt.kind {
				t.Errorf("a tool without a relation, which nobody can tell now: %s", got)
			}
			testwait.Until(t, patience, "/readyz is red", func() bool {
				code, word := readyz(r)
				return code == http.StatusServiceUnavailable && word == "spicedb"
			})
			if status := r.Status(); status.NotReady != "spicedb" || status.Detail == "" {
				t.Errorf("status %q, %q", status.NotReady, status.Detail)
			}
			greeting, err := c.Request(t.Context(), mcp.MethodDiscover, []byte("{}"))
			if err != nil || mcp.Lookup(greeting, "capabilities", "tools") == nil || mcp.Lookup(greeting, "instructions") != nil {
				t.Errorf("greeted with %s, %v", greeting, err)
			}

			tt.recover(t, s)
			testwait.Until(t, patience, "calls pass again", func() bool { return tried(t.Context(), c, "a__pid", "{}") == "ok" })
			testwait.Until(t, patience, "the gateway is ready again", ready)
			if list, err := names(t, c); err != nil || !slices.Equal(list, []string{"a__pid"}) {
				t.Errorf("listed %v, %v", list, err)
			}
		})
	}
}

// A revocation is seen by its event, and who has seen it sees no allow of before it. What was
// written after it may be seen first: a question that was never asked gets the newest answer,
// and the event is on its way.
func TestRevokedRelationHidesTheTool(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	h := newHome(t)
	settings := asking(s.Start(t))
	settings["limits"] = map[string]any{"unknown_per_minute": 0} // it is asked for as often as can be
	h.write(t, servers{"a": fake()}, settings)
	r := h.newRunning(t)
	c := r.client(t)
	for round := range 10 {
		s.Write(t, "tool:a__pid#executor@user:local")
		testwait.Until(t, patience, "the tool is seen", func() bool { return tried(t.Context(), c, "a__pid", "{}") == "ok" })
		if got := tried(t.Context(), c, "a__echo", "{}"); got == "ok" {
			t.Fatalf("round %d: called without a relation", round)
		}
		var applied atomic.Bool
		var callers sync.WaitGroup
		stop := make(chan struct{})
		for range 3 {
			own := r.client(t)
			callers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					after := applied.Load()
					if got := tried(t.Context(), own, "a__pid", "{}"); got == "ok" && after {
						t.Error("allowed after the revocation was applied")
						return
					}
				}
			})
		}
		s.Delete(t, "tool:a__pid#executor@user:local")
		s.Write(t, "tool:a__echo#executor@user:local")
		testwait.Until(t, patience, "what was written later is seen", func() bool { return tried(t.Context(), c, "a__echo", "{}") == "ok" })
		testwait.Until(t, patience, "the tool is hidden", func() bool {
			list, err := names(t, c)
			return err == nil && slices.Equal(list, []string{"a__echo"})
		})
		applied.Store(true)
		if got := tried(t.Context(), c, "a__pid", "{}"); got != "Unknown tool: a__pid" {
			t.Errorf("round %d: %s", round, got)
		}
		close(stop)
		callers.Wait()
		s.Delete(t, "tool:a__echo#executor@user:local")
		testwait.Until(t, patience, "it is taken away", func() bool { return tried(t.Context(), c, "a__echo", "{}") != "ok" })
	}
}

// A reload keeps the connection to SpiceDB and what was kept of its answers,
// unless its settings are others.
func TestReloadKeepsTheRelations(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Write(t, "tool:a__pid#executor@user:local", "tool:a__pid#banned@user:other")
	addr := s.Start(t)
	h := newHome(t)
	h.write(t, servers{"a": fake()}, askingBriefly(addr))
	r := h.newRunning(t)
	c := r.client(t)
	testwait.Until(t, patience, "the stream stands", func() bool { return r.Operation.Relations.Status().Watching })
	kept := r.Operation.Relations.Current
	reload := func(section map[string]any) {
		t.Helper()
		h.write(t, servers{"a": fake()}, section)
		if _, err := r.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	section := askingBriefly(addr)
	section["limits"] = map[string]any{"queue": 7}
	reload(section)
	if r.Operation.Relations.Current != kept {
		t.Error("another setting made another phase")
	}
	reload(askingBriefly(addr, "grant", "owner"))
	if r.Operation.Relations.Current == kept {
		t.Error("its own setting made no other phase")
	}
	if got := tried(t.Context(), c, "a__pid", "{}"); got != "ok" {
		t.Errorf("after the change: %s", got)
	}
	testwait.Until(t, patience, "the one before is closed", func() bool {
		_, err := kept.Phase.Check(t.Context(), &gate.Request{Action: gate.View, Kind: mcp.Tool, Exposed: "x", Identity: gate.NewIdentity(gate.Identity{Principal: gate.Local})})
		return err != nil && strings.Contains(err.Error(), "closed")
	})
	// One that cannot be leaves the one in force.
	h.write(t, servers{"a": fake()}, askingBriefly(addr, "object", "Not A Type"))
	now := r.Operation.Relations.Current
	if _, err := r.Reload(); err == nil || r.Operation.Relations.Current != now {
		t.Errorf("a bad section: %v", err)
	}
	reload(map[string]any{"gate": map[string]any{"open": true}})
	if r.Operation.Relations.Status() != nil {
		t.Error("it is asked after its section is gone")
	}
	if code, _ := readyz(r); code != http.StatusOK {
		t.Errorf("/readyz %d", code)
	}
}

// The nine combinations of what SpiceDB and the policy say: list, call and why
// agree, and the first deny ends.
func TestSpiceDBAndPolicyTogether(t *testing.T) {
	t.Parallel()
	policies := map[string]string{
		"allow": "decision := true",
		"deny":  "decision := false",
		"error": "decision := 1 / input.nothing\n", // undefined
	}
	type result struct{ list, call, why string }
	want := map[string]result{
		"allow allow": {"listed", "ok", "allow"},
		"allow deny":  {"hidden", "Unknown tool: a__pid", "deny opa"},
		"allow error": {"hidden", "Unknown tool: a__pid", "deny opa"},
		"deny allow":  {"hidden", "Unknown tool: a__pid", "deny spicedb"},
		"deny deny":   {"hidden", "Unknown tool: a__pid", "deny spicedb"},
		"deny error":  {"hidden", "Unknown tool: a__pid", "deny spicedb"},
		"error allow": {"1001 authz_unavailable", "1001 authz_unavailable", "deny spicedb"},
		"error deny":  {"1001 authz_unavailable", "1001 authz_unavailable", "deny spicedb"},
		"error error": {"1001 authz_unavailable", "1001 authz_unavailable", "deny spicedb"},
	}
	for both, want := range want {
		t.Run(both, func(t *testing.T) {
			t.Parallel()
			relation, policy, _ := strings.Cut(both, " ")
			s := spicedbtest.NewServer()
			addr := s.Start(t)
			switch relation {
			case "allow":
				s.Write(t, "server:a#executor@user:local", "tool:a__pid#server@server:a")
			case "error":
				s.Before(spicedbtest.Unavailable)
			}
			h := newHome(t)
			if err := os.Mkdir(h.path("policies"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(h.path("policies/p.rego"), []byte("package toolgate\n"+policies[policy]+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			section := asking(addr)
			section["opa"] = map[string]any{"path": "policies"}
			h.write(t, servers{"a": fake()}, section)
			r := h.newRunning(t)
			c := r.client(t)
			got := result{list: "hidden"}
			list, err := names(t, c)
			if fault, ok := errors.AsType[*mcp.Error](err); ok {
				kind, _ := mcp.LookupString(fault.Data, "kind")
				got.list = fmt.Sprintf("%d %s", fault.Code, kind)
			} else if slices.Contains(list, "a__pid") {
				got.list = "listed"
			}
			got.call = tried(t.Context(), c, "a__pid", "{}")
			w := r.Gateway.Why(t.Context(), gate.NewIdentity(gate.Identity{Principal: gate.Local}), proxy.Scope{}, "a__pid", nil)
			got.why = w.View.Effect.String()
			if w.View.Effect != gate.Allow {
				got.why += " " + w.View.Phase
			}
			if got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// asking is a toolgate section that asks a SpiceDB. It has time to answer, so
// that no test depends on how fast it does.
func asking(addr string, more ...string) map[string]any {
	section := map[string]any{"endpoint": addr, "tls": false, "timeouts": map[string]any{"call": "20s", "list": "20s"}}
	for i := 0; i+1 < len(more); i += 2 {
		section[more[i]] = more[i+1]
	}
	return map[string]any{"spicedb": section}
}

// askingBriefly is asking for tests that wait for the time to pass.
func askingBriefly(addr string, more ...string) map[string]any {
	section := asking(addr, more...)
	section["spicedb"].(map[string]any)["timeouts"] = map[string]any{"call": "5s", "list": "5s"}
	return section
}

// names lists the tools of a client.
func names(t *testing.T, c *lineclient.Client) ([]string, error) {
	t.Helper()
	items, err := c.All(t.Context(), mcp.Tool)
	var out []string
	for _, raw := range items {
		name, _ := mcp.LookupString(raw, "name")
		out = append(out, name)
	}
	return out, err
}

// tried calls a tool and returns "ok", or the kind of its refusal.
func tried(ctx context.Context, c *lineclient.Client, tool, arguments string) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	result, err := c.Request(ctx, mcp.MethodToolsCall, []byte(`{"name":"`+tool+`","arguments":`+arguments+`}`))
	if fault, ok := errors.AsType[*mcp.Error](err); ok {
		if kind, ok := mcp.LookupString(fault.Data, "kind"); ok {
			return fmt.Sprintf("%d %s", fault.Code, kind)
		}
		return fault.Message
	}
	if err != nil {
		return err.Error()
	}
	if kind, ok := mcp.LookupString(result, "_meta", refusal.Key, "kind"); ok {
		return kind
	}
	return "ok"
}

func readyz(r *running) (int, string) {
	w := httptest.NewRecorder()
	r.Gateway.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/readyz", http.NoBody))
	return w.Code, strings.TrimSpace(w.Body.String())
}
