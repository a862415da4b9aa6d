//go:build !windows

package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// calls returns the ends of the calls in the audit log of a home, once there are n.
func (h *home) calls(t *testing.T, n int) (all []audit.Entry) {
	t.Helper()
	testwait.Until(t, patience, "the calls are recorded", func() bool {
		all = nil
		for line := range strings.SplitSeq(h.text(t, h.path("state/audit.jsonl")), "\n") {
			var e audit.Entry
			if json.Unmarshal([]byte(line), &e) == nil && e.Event == audit.EventEnd && e.CallID != "" {
				all = append(all, e)
			}
		}
		return len(all) >= n
	})
	return all
}

// withAgents is a configuration with agents, each of an endpoint and with settings of its
// own, and one caller.
func withAgents(agents map[string]map[string]any, change func(section map[string]any)) map[string]any {
	return keyed(func(section map[string]any) {
		all := map[string]any{}
		for name, own := range agents {
			settings := map[string]any{"model": "m", "api_key": "model-key"}
			maps.Copy(settings, own)
			all[name] = settings
		}
		section["agents"] = all
		if change != nil {
			change(section)
		}
	}, "alice")
}

// An agent may do what its caller may and what its capsule has. What it calls is recorded as
// calls of the caller, below the call of the agent.
func TestAgentStaysInItsCapsule(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	url := endpoint(t, `{"turns":[{"calls":[{"tool":"util__echo","args":{"text":"one"}},{"tool":"a__echo","args":{}},{"tool":"agent__run","args":{"task":"x"}}]},{"text":"done"}]}`)
	h.write(t, servers{"a": fake()}, withAgents(map[string]map[string]any{"reader": {"endpoint": url, "capsule": "reads"}}, func(section map[string]any) {
		section["capsules"] = map[string]any{"reads": map[string]any{"visible": []any{"util__echo", "agent__*"}, "callable": []any{"util__echo"}}}
	}))
	r := h.newRunning(t)
	r.settle(t)
	c := r.Client(t, "alice")
	if got := text(t, c, "a__echo", `{}`); got == "" { // nobody holds the capsule, and it grants nobody anything
		t.Error("the caller cannot call what the agent cannot")
	}
	if got := text(t, c, "agent__reader", `{"task":"try"}`); got != "done" {
		t.Fatal(got)
	}
	byName := map[string]audit.Entry{}
	for _, e := range h.calls(t, 4) {
		byName[e.Name+" "+e.Agent] = e
	}
	outer := byName["agent__reader "]
	inner := byName["util__echo reader"]
	if outer.CallID == "" || inner.Parent != outer.CallID || inner.Outcome != audit.OutcomeOK || inner.Principal.Subject != outer.Principal.Subject {
		t.Errorf("the echo of the agent: %+v", inner)
	}
	for _, name := range []string{"a__echo reader", "agent__run reader"} {
		if e := byName[name]; e.Outcome == audit.OutcomeOK {
			t.Errorf("%s was made: %+v", name, e)
		}
	}
}

// Agents call agents, whose rights are those of all of them together, and none comes back to
// itself.
func TestAgentsCallAgents(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	first := endpoint(t, `{"turns":[{"calls":[{"tool":"agent__second","args":{"task":"go on"}}]},{"text":"first is done"}]}`)
	second := endpoint(t, `{"turns":[{"calls":[{"tool":"agent__first","args":{"task":"back"}},{"tool":"util__echo","args":{"text":"deep"}}]},{"text":"second is done"}]}`)
	h.write(t, servers{}, withAgents(map[string]map[string]any{"first": {"endpoint": first}, "second": {"endpoint": second}}, nil))
	r := h.newRunning(t)
	r.settle(t)
	if got := text(t, r.Client(t, "alice"), "agent__first", `{"task":"begin"}`); got != "first is done" {
		t.Fatal(got)
	}
	var echo, back audit.Entry
	all := h.calls(t, 4)
	for _, e := range all {
		switch {
		case e.Name == "util__echo":
			echo = e
		case e.Name == "agent__first" && e.Agent == "second":
			back = e
		}
	}
	if echo.Outcome != audit.OutcomeOK || echo.Agent != "second" || !slices.ContainsFunc(all, func(e audit.Entry) bool {
		return e.CallID == echo.Parent && e.Name == "agent__second" && e.Agent == "first"
	}) {
		t.Errorf("the echo: %+v", echo)
	}
	if back.Outcome != audit.OutcomeToolError {
		t.Errorf("the way back: %+v", back)
	}
}

// A run ends with its call, and so does what it has under way at a server.
func TestAgentIsCancelled(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	wait := h.path("wait")
	url := endpoint(t, fmt.Sprintf(`{"turns":[{"calls":[{"tool":"a__slow","args":{"file":%q}}]},{"text":"done"}]}`, wait))
	h.write(t, servers{"a": fake()}, withAgents(map[string]map[string]any{"waiter": {"endpoint": url}}, nil))
	r := h.newRunning(t)
	r.settle(t)
	c := r.Client(t, "alice")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Request(ctx, mcp.MethodToolsCall, []byte(`{"name":"agent__waiter","arguments":{"task":"wait"}}`))
		ended <- err
	}()
	testwait.Until(t, patience, "the tool is called", func() bool {
		return strings.Contains(h.text(t, h.path("state/audit.jsonl")), `"name":"a__slow"`)
	})
	cancel()
	if err := <-ended; err == nil {
		t.Error("the call has an answer")
	}
	for _, e := range h.calls(t, 2) {
		if e.Outcome != audit.OutcomeCancelled && !(e.Name == "agent__waiter" && e.Outcome == audit.OutcomeOK) {
			t.Errorf("%s ended %s", e.Name, e.Outcome)
		}
	}
	list, err := r.Control.Runs(t.Context(), admin.RunQuery{})
	if err != nil || len(list) != 1 || list[0].State != "cancelled" {
		t.Errorf("%+v, %v", list, err)
	}
	_ = os.WriteFile(wait, nil, 0o600)
}

// The end of a call ends the request to the model, which would wait for ever: the endpoint
// sees it go, and only then the run counts as cancelled.
func TestCancelEndsTheModelRequest(t *testing.T) {
	t.Parallel()
	asked, gone := make(chan struct{}), make(chan time.Time, 1)
	model := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server notices that a client has gone once it has read everything
		close(asked)
		<-r.Context().Done()
		gone <- time.Now()
	}))
	t.Cleanup(model.Close)
	h := newHome(t)
	h.write(t, servers{}, withAgents(map[string]map[string]any{"thinker": {"endpoint": model.URL + "/v1"}}, nil))
	r := h.newRunning(t)
	r.settle(t)
	c := r.Client(t, "alice")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Request(ctx, mcp.MethodToolsCall, []byte(`{"name":"agent__thinker","arguments":{"task":"think"}}`))
		ended <- err
	}()
	<-asked
	from := time.Now()
	cancel()
	at := <-gone // nothing but the cancellation ends the request
	t.Logf("the model's request ended %v after the cancellation", at.Sub(from))
	if err := <-ended; err == nil {
		t.Error("the call has an answer")
	}
	testwait.Until(t, patience, "the run is cancelled", func() bool {
		list, err := r.Control.Runs(t.Context(), admin.RunQuery{})
		return err == nil && len(list) == 1 && list[0].State == "cancelled"
	})
}

// A server's request for sampling is answered by the model of the agent that the operator
// names, and charged to its budget; the client is asked nothing.
func TestSamplingAgent(t *testing.T) {
	t.Parallel()
	server := modernServer(t, `{"name":"colour","inputSchema":{"type":"object"}}`, func(_ http.ResponseWriter, _ *http.Request, m *mcp.Message) string {
		if m.Param("inputResponses") == nil {
			return `{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"a colour?"}}],"maxTokens":20}}},"requestState":"s"}`
		}
		text, _ := mcp.LookupString(m.Param("inputResponses"), "q", "content", "text")
		return `{"resultType":"complete","content":[{"type":"text","text":` + string(mcp.Quote("the model says "+text)) + `}]}`
	})
	h := newHome(t)
	url := endpoint(t, `{"turns":[{"text":"blue","usage":{"input":5,"output":2,"known":true}}],"repeat":true}`)
	h.write(t, servers{"s": {"type": "http", "url": server}}, withAgents(map[string]map[string]any{"writer": {"endpoint": url}}, func(section map[string]any) {
		section["servers"] = map[string]any{"s": map[string]any{"client_requests": map[string]any{"sampling_agent": "writer"}}}
		section["budgets"] = []any{map[string]any{"name": "words", "per": "agent", "unit": "tokens", "limit": 400, "window": "day"}}
	}))
	r := h.newRunning(t)
	r.settle(t)
	c := r.Client(t, "alice")
	if got := text(t, c, "s__colour", `{}`); got != "the model says blue" {
		t.Fatal(got)
	}
	used, err := r.Control.BudgetUse(t.Context(), admin.BudgetQuery{})
	if err != nil || len(used) != 1 || used[0].Budget != "words" || used[0].Used != 7 {
		t.Errorf("charged %+v, %v", used, err)
	}
}

// An agent runs as a task for clients of both kinds that ask for one, and a function of the
// client is then what the result requires.
func TestAgentAsATask(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	url := endpoint(t, `{"turns":[{"calls":[{"tool":"util__echo","args":{"text":"one"}}]},{"text":"done"}]}`)
	asking := endpoint(t, `{"turns":[{"calls":[{"tool":"pick"}]},{"text":"done"}]}`)
	h.write(t, servers{}, map[string]any{
		"native": map[string]any{"util": map[string]any{}},
		"agents": map[string]any{
			"worker": map[string]any{"endpoint": url, "model": "m", "api_key": "model-key"},
			"picker": map[string]any{"endpoint": asking, "model": "m", "api_key": "model-key"},
		},
	})
	r := h.newRunning(t)
	r.settle(t)
	for tool, want := range map[string]struct{ args, text string }{
		"agent__worker": {`{"task":"say one"}`, `"status":"completed"`},
		"agent__picker": {`{"task":"pick","tools":[{"name":"pick"}]}`, `"status":"requires_action"`},
	} {
		id, body := r.begin(t, tool, want.args)
		if id == "" {
			t.Fatalf("%s is no task: %s", tool, body)
		}
		testwait.Until(t, patience, "the task has ended", func() bool {
			var status string
			status, body = r.look(t, id)
			return status != "working"
		})
		if !strings.Contains(body, want.text) {
			t.Errorf("%s: %s", tool, body)
		}
		session, _ := r.openDated(t)
		made := r.dated(t, session, mcp.MethodToolsCall, `"name":"`+tool+`","arguments":`+want.args+`,"task":{"ttl":60000}`)
		old, _ := mcp.LookupString([]byte(made), "result", "task", "taskId")
		if got := r.dated(t, session, mcp.MethodTaskResult, `"taskId":"`+old+`"`); old == "" || !strings.Contains(got, want.text) {
			t.Errorf("%s in 2025-11-25: %s, then %s", tool, made, got)
		}
	}
}

// The tool that runs any agent runs none whose own tool the caller may not call.
func TestAgentRunAsksTheGate(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	url := endpoint(t, `{"turns":[{"text":"done"}],"repeat":true}`)
	h.write(t, servers{}, withAgents(map[string]map[string]any{"open": {"endpoint": url}, "seen": {"endpoint": url}, "hidden": {"endpoint": url}}, func(section map[string]any) {
		section["auth"].(map[string]any)["keys"].([]any)[0].(map[string]any)["groups"] = []any{"team"}
		section["capsules"] = map[string]any{"team": map[string]any{
			"groups": []any{"team"}, "visible": []any{"agent__run", "agent__open", "agent__seen"}, "callable": []any{"agent__run", "agent__open"},
		}}
	}))
	r := h.newRunning(t)
	r.settle(t)
	c := r.Client(t, "alice")
	for agent, want := range map[string]string{"open": "done", "seen": "You may not call agent__seen", "hidden": "There is no agent"} {
		if got := text(t, c, "agent__run", `{"agent":"`+agent+`","task":"x"}`); !strings.Contains(got, want) {
			t.Errorf("%s: %s", agent, got)
		}
	}
}

// An approval of an agent is used by the call that it was asked for. The tool that runs any agent
// neither asks for one nor runs by one that was given.
func TestAgentRunUsesNoApproval(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{}, withAgents(map[string]map[string]any{"worker": {"endpoint": endpoint(t, `{"turns":[{"text":"done"}],"repeat":true}`)}}, func(section map[string]any) {
		section["governance"] = map[string]any{"tools": map[string]any{"agent__worker": map[string]any{"requires_approval": true}}}
	}))
	r := h.newRunning(t)
	r.settle(t)
	run := func(name, arguments string) string {
		body, headers := modernRequest(mcp.MethodToolsCall, name, `"name":"`+name+`","arguments":`+arguments+`,`)
		return r.postOnce(t, "alice", "/mcp", body, headers...).body
	}
	const byRun = `{"agent":"worker","task":"x"}`
	if got := run("agent__run", byRun); !strings.Contains(got, "needs an approval") {
		t.Errorf("before it is asked for: %s", got)
	}
	if got := run("agent__worker", `{"task":"x"}`); strings.Contains(got, "done") {
		t.Fatalf("it runs without an approval: %s", got)
	}
	if _, err := r.Answer(t.Context(), r.asked(t), admin.Answer{Do: admin.Approve}); err != nil {
		t.Fatal(err)
	}
	if got := run("agent__run", byRun); !strings.Contains(got, "needs an approval") {
		t.Errorf("by an approval of another call: %s", got)
	}
	if got := run("agent__worker", `{"task":"x"}`); !strings.Contains(got, "done") {
		t.Errorf("the call that was approved: %s", got)
	}
}
