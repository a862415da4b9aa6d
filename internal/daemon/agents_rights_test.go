//go:build !windows

package daemon_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/native/agents/model/modeltest"
)

// heldModel is a model that follows a script, and answers nothing before it may.
type heldModel struct {
	url   string
	asked atomic.Int64
	// comes has each request, which waits for an element of goes.
	comes, goes chan struct{}
}

func holdModel(t *testing.T, script string) *heldModel {
	t.Helper()
	s, err := modeltest.Parse([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	m := &heldModel{comes: make(chan struct{}, 16), goes: make(chan struct{}, 16)}
	answers := &modeltest.Server{Script: *s, Key: "model-key"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a server notices that a client has gone once it has read everything
		r.Body = io.NopCloser(bytes.NewReader(body))
		m.asked.Add(1)
		m.comes <- struct{}{}
		select {
		case <-m.goes:
			answers.ServeHTTP(w, r)
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	m.url = server.URL + "/v1"
	return m
}

// Whoever loses the right to run an agent while it works is charged no further turn, and the
// run says why it has ended: with its caller there, and after another gateway has taken it over.
func TestRightsDuringARun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		keys   []string // that are let in afterwards
		change func(section map[string]any)
		policy string // that holds all along
		// present and absent are what the run says with and without its caller.
		present, absent string
	}{
		"a revoked key": {keys: []string{"bob"}, present: "no longer accepted", absent: "the credential of its caller is no longer accepted"},
		"a capsule": {keys: []string{"alice"}, change: func(s map[string]any) {
			s["auth"].(map[string]any)["keys"].([]any)[0].(map[string]any)["groups"] = []string{"new"}
			s["capsules"] = map[string]any{"c": map[string]any{"groups": []string{"new"}, "visible": []string{"*"}, "callable": []string{"util__*"}}}
			delete(s, "gate")
		}, present: "may not run this agent any more", absent: "You may not call agent__worker"},
		"a policy that looks at the task": {keys: []string{"alice"}, policy: `package toolgate
default decision := false
decision if endswith(input.action, ".view")
decision if input.tool_name != "agent__worker"
decision if input.args.task == "work"
`},
		"a budget, which its call has passed": {keys: []string{"alice"}, change: func(s map[string]any) {
			s["budgets"] = []any{map[string]any{"name": "none", "unit": "calls", "limit": 0, "window": "day", "per": "subject"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, absent := range []bool{false, true} {
				h := newHome(t)
				m := holdModel(t, `{"turns":[{"calls":[{"tool":"util__echo","args":{"text":"one"}}]},{"text":"done"}]}`)
				configuration := func(change func(map[string]any), keys ...string) map[string]any {
					return keyed(func(section map[string]any) {
						section["agents"] = map[string]any{"worker": map[string]any{"model": "m", "api_key": "model-key", "endpoint": m.url}}
						section["limits"] = map[string]any{"drain": "10ms"}
						if tc.policy != "" {
							section["opa"] = map[string]any{"path": h.path("policy")}
						}
						if change != nil {
							change(section)
						}
					}, keys...)
				}
				if err := errors.Join(os.Mkdir(h.path("policy"), 0o700), os.WriteFile(h.path("policy/p.rego"), []byte(tc.policy), 0o600)); err != nil {
					t.Fatal(err)
				}
				h.write(t, servers{}, configuration(nil, "alice", "bob"))
				r := h.newRunning(t)
				r.settle(t)
				answer := make(chan string, 1)
				go func() {
					body, headers := modernRequest(mcp.MethodToolsCall, "agent__worker", `"name":"agent__worker","arguments":{"task":"work"},`)
					answer <- r.postOnce(t, "alice", "/mcp", body, headers...).body
				}()
				<-m.comes
				if absent {
					if err := r.End(); err != nil {
						t.Fatal(err)
					}
					<-answer
					r = h.newRunning(t)
					<-m.comes
				}
				h.write(t, servers{}, configuration(tc.change, tc.keys...))
				if _, err := r.Reload(); err != nil {
					t.Fatal(err)
				}
				before := m.asked.Load()
				m.goes <- struct{}{}
				m.goes <- struct{}{}
				var ended admin.RunDetails
				testwait.Until(t, patience, "the run has ended", func() bool {
					list, err := r.Control.Runs(t.Context(), admin.RunQuery{})
					if err != nil || len(list) != 1 || list[0].State == "running" {
						return false
					}
					ended, err = r.Control.Run(t.Context(), list[0].ID, "")
					return err == nil
				})
				want := tc.present
				if absent {
					want = tc.absent
				}
				if want == "" {
					if ended.State != "completed" {
						t.Errorf("absent=%t: %s: %s", absent, ended.State, ended.Reason)
					}
					continue
				}
				if ended.State != "failed" || !strings.Contains(ended.Reason, want) || m.asked.Load() != before {
					t.Errorf("absent=%t: %s: %s; asked %d times more", absent, ended.State, ended.Reason, m.asked.Load()-before)
				}
				if !absent {
					if got := <-answer; !strings.Contains(got, want) {
						t.Errorf("the caller is told %s", got)
					}
				}
			}
		})
	}
}
