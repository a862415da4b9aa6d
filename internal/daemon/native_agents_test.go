//go:build !windows

package daemon_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/agents/model/modeltest"
)

// endpoint serves a model that follows a script, and returns its address.
func endpoint(t testing.TB, script string) string {
	t.Helper()
	return serveModel(t, script, nil)
}

// watched is an [endpoint] with its first requests.
func watched(t *testing.T, script string) (string, <-chan modeltest.Seen) {
	t.Helper()
	seen := make(chan modeltest.Seen, 16)
	return serveModel(t, script, func(s modeltest.Seen) {
		select {
		case seen <- s:
		default:
		}
	}), seen
}

func serveModel(t testing.TB, script string, seen func(modeltest.Seen)) string {
	t.Helper()
	s, err := modeltest.Parse([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&modeltest.Server{Script: *s, Key: "model-key", Seen: seen})
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}

// withAgent is a configuration with an agent and two callers.
func withAgent(url string, settings map[string]any) map[string]any {
	return keyed(func(section map[string]any) {
		agent := map[string]any{"endpoint": url, "model": "m", "api_key": "model-key"}
		maps.Copy(agent, settings)
		section["agents"] = map[string]any{"researcher": agent}
	}, "alice", "bob")
}

// An agent calls tools of its caller until it has an answer, over each wire format.
func TestAgentCallsTools(t *testing.T) {
	t.Parallel()
	for _, api := range []string{"chat", "responses", "messages"} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			url, seen := watched(t, `{"turns":[{"calls":[{"tool":"util__echo","args":{"text":"one"}},{"tool":"util__nothing"}]},{"text":"done"}]}`)
			h.write(t, servers{}, withAgent(url, map[string]any{"api": api, "parameters": map[string]any{"temperature": 0.2, "top_p": 1}}))
			r := h.newRunning(t)
			got := text(t, r.Client(t, "alice"), "agent__run", `{"task":"say one"}`)
			if got != "done" {
				t.Errorf("%s", got)
			}
			for range 2 {
				body := (<-seen).Body
				if got := [2]string{string(mcp.Lookup(body, "temperature")), string(mcp.Lookup(body, "top_p"))}; got != [2]string{"0.2", "1"} {
					t.Errorf("parameters: %v in %s", got, body)
				}
			}
			if got := text(t, r.Client(t, "alice"), "agent__researcher", `{"run":"run_x"}`); !strings.Contains(got, "You have no run") {
				t.Errorf("%s", got)
			}
		})
	}
}

// structured calls a tool as a modern client that can be asked nothing, and returns its
// structure.
func (r *running) structured(t *testing.T, key, tool, args string) []byte {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `,"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"` + string(mcp.V20260728) + `","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	got := r.post(t, key, "/mcp", body, mcp.HeaderVersion, string(mcp.V20260728), mcp.HeaderMethod, mcp.MethodToolsCall, mcp.HeaderName, tool).body
	out := mcp.Lookup([]byte(got), "result", "structuredContent")
	if out == nil {
		return []byte(got)
	}
	return out
}

// A client that cannot be asked runs its functions between two calls: it alone, with all
// outputs, and once.
func TestAgentRequiresAction(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	url := endpoint(t, `{"turns":[{"calls":[{"tool":"pick","args":{"of":[1,2]}},{"tool":"util__echo","args":{"text":"one"}},{"tool":"pick"}]},{"text":"done"}]}`)
	h.write(t, servers{}, withAgent(url, nil))
	r := h.newRunning(t)
	first := r.structured(t, "alice", "agent__researcher", `{"task":"pick","tools":[{"name":"pick","parameters":{"type":"object"}}]}`)
	var o struct {
		Run, Status string
		Required    []struct{ ID, Name string }
	}
	if err := json.Unmarshal(first, &o); err != nil || o.Status != "requires_action" || len(o.Required) != 2 || o.Required[0].Name != "pick" {
		t.Fatalf("%s", first)
	}
	outputs := fmt.Sprintf(`{"run":%q,"outputs":[{"id":%q,"output":"1"},{"id":%q,"output":"2"}]}`, o.Run, o.Required[0].ID, o.Required[1].ID)
	for _, step := range []struct{ key, args, want string }{
		{"bob", outputs, "You have no run"},
		{"bob", `{"run":"` + o.Run + `","cancel":true}`, "You have no run"},
		{"alice", fmt.Sprintf(`{"run":%q,"outputs":[{"id":%q,"output":"1"}]}`, o.Run, o.Required[0].ID), "all at once"},
		{"alice", `{"run":"` + o.Run + `"}`, "requires_action"},
		{"alice", outputs, `"text":"done"`},
		{"alice", outputs, "does not wait"},
		{"alice", `{"run":"` + o.Run + `"}`, `"text":"done"`},
	} {
		if got := r.structured(t, step.key, "agent__researcher", step.args); !strings.Contains(string(got), step.want) {
			t.Errorf("%s %s: %s", step.key, step.args, got)
		}
	}
}

// An operator sees each run with its steps, without secrets, and cancels what has not
// ended.
func TestRunsAreShown(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	url := endpoint(t, `{"turns":[{"calls":[{"tool":"util__echo","args":{"text":"the key is model-key"}},{"tool":"pick"}]},{"text":"done"}]}`)
	h.write(t, servers{}, withAgent(url, nil))
	r := h.newRunning(t)
	r.structured(t, "alice", "agent__researcher", `{"task":"pick","tools":[{"name":"pick"}]}`)
	list, err := r.Control.Runs(t.Context(), admin.RunQuery{State: "waiting"})
	if err != nil || len(list) != 1 || list[0].Caller != "alice of default" || list[0].Agent != "researcher" {
		t.Fatalf("%+v, %v", list, err)
	}
	run, err := r.Control.Run(t.Context(), list[0].ID, "")
	if err != nil || run.Task != "pick" || len(run.Steps) != 3 || run.Steps[1].Name != "util__echo" || run.Steps[1].CallID == "" || strings.Contains(fmt.Sprint(run), "model-key") {
		t.Errorf("%+v, %v", run, err)
	}
	if err := r.Control.CancelRun(t.Context(), list[0].ID); err != nil {
		t.Error(err)
	}
	if got := r.structured(t, "alice", "agent__researcher", `{"run":"`+list[0].ID+`"}`); !strings.Contains(string(got), `"status":"cancelled"`) {
		t.Errorf("%s", got)
	}
	for _, id := range []string{list[0].ID, "run_x"} {
		if err := r.Control.CancelRun(t.Context(), id); !errors.Is(err, admin.ErrNoRun) {
			t.Errorf("%s is cancelled: %v", id, err)
		}
	}
	if _, err := r.Control.Run(t.Context(), "run_x", ""); !errors.Is(err, admin.ErrNoRun) {
		t.Errorf("it is shown: %v", err)
	}
}

// calledBy is a call of agent__researcher by a client of 2026-07-28 that shows questions.
func (r *running) calledBy(t *testing.T, key, params string) []byte {
	t.Helper()
	const tool = "agent__researcher"
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `",` + params + `,"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"` + string(mcp.V20260728) + `","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`
	return []byte(r.post(t, key, "/mcp", body, mcp.HeaderVersion, string(mcp.V20260728), mcp.HeaderMethod, mcp.MethodToolsCall, mcp.HeaderName, tool).body)
}

// A modern client that can be asked runs the functions of three turns by
// input_required, those of the first turn at once, for its own run alone.
func TestAgentAsksItsClient(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	url := endpoint(t, `{"turns":[{"calls":[{"tool":"pick","args":{"of":1}},{"tool":"pick","args":{"of":2}}]},{"calls":[{"tool":"pick","args":{"of":3}}]},{"calls":[{"tool":"pick","args":{"of":4}}]},{"text":"done"}]}`)
	h.write(t, servers{}, withAgent(url, nil))
	r := h.newRunning(t)
	const args = `"arguments":{"task":"pick","tools":[{"name":"pick"}]}`
	got, asked := r.calledBy(t, "alice", args), 0
	for range 8 {
		requests := mcp.Lookup(got, "result", "inputRequests")
		if requests == nil {
			break
		}
		answers := ""
		for m := range mcp.Members(requests) {
			asked++
			id, _ := mcp.Unquote(m.Key(requests))
			if name, _ := mcp.LookupString(m.Value.Of(requests), "params", "_meta", "dev.toolgate/function", "name"); name != "pick" {
				t.Errorf("asked %s", m.Value.Of(requests))
			}
			answers += fmt.Sprintf(`,%q:{"action":"accept","content":{"output":"picked"}}`, id)
		}
		state, _ := mcp.LookupString(got, "result", "requestState")
		answer := args + `,"requestState":"` + state + `","inputResponses":{` + answers[1:] + `}`
		if other := r.calledBy(t, "bob", answer); strings.Contains(string(other), "inputRequests") || strings.Contains(string(other), `"done"`) {
			t.Errorf("bob answers for alice: %s", other)
		}
		forged := strings.Replace(answer, state, state[:len(state)-6]+"AAAAAA", 1)
		if other := r.calledBy(t, "alice", forged); !strings.Contains(string(other), "Invalid requestState") {
			t.Errorf("a forged state: %s", other)
		}
		got = r.calledBy(t, "alice", answer)
		if twice := r.calledBy(t, "alice", answer); strings.Contains(string(twice), "inputRequests") || strings.Contains(string(twice), `"done"`) {
			t.Errorf("an answer counts twice: %s", twice)
		}
	}
	if text, _ := mcp.LookupString(got, "result", "structuredContent", "text"); text != "done" || asked != 4 {
		t.Errorf("asked %d times; %s", asked, got)
	}
}
