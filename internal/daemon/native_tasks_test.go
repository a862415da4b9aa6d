//go:build !windows

package daemon_test

import (
	"os"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// dated is a request of a client of 2025-11-25 in a session.
func (r *running) dated(t *testing.T, session, method, params string) string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
	return r.post(t, "", "/mcp", body, mcp.HeaderVersion, string(mcp.V20251125), mcp.HeaderSession, session).body
}

// openDated opens a session of 2025-11-25 and returns what it was told.
func (r *running) openDated(t *testing.T) (session, told string) {
	t.Helper()
	got := r.post(t, "", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+string(mcp.V20251125)+
		`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	session = got.header.Get(mcp.HeaderSession)
	r.post(t, "", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, mcp.HeaderVersion, string(mcp.V20251125), mcp.HeaderSession, session)
	return session, got.body
}

// A native tool with a queue is a task for clients of both kinds that ask for one:
// it is made, looked at, cancelled, and its result fetched.
func TestNativeTasks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if err := os.Mkdir(h.path("work"), 0o700); err != nil {
		t.Fatal(err)
	}
	code := map[string]any{"sandbox": "auto", "python": pythonHere(t), "queue": true, "roots": []string{h.path("work")}}
	h.write(t, servers{}, withNative(map[string]any{"code": code}, nil))
	r := h.newRunning(t)
	testwait.Until(t, patience, "the tool is there", func() bool {
		l := r.NativeListing("code")
		return l != nil && len(l.Items[mcp.Tool]) > 0
	})
	session, told := r.openDated(t)
	if !strings.Contains(told, `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`) {
		t.Errorf("capabilities: %s", told)
	}
	if got := r.dated(t, session, mcp.MethodToolsList, ``); strings.Count(got, `"execution":{"taskSupport":"optional"}`) != 3 { // all but git_status
		t.Errorf("listed for 2025-11-25: %s", got)
	}
	if got := r.tasked(t, mcp.MethodToolsList, "", `"x":1`); strings.Contains(got, "taskSupport") {
		t.Errorf("listed for 2026-07-28: %s", got)
	}
	begin := func(code string) string {
		body := r.dated(t, session, mcp.MethodToolsCall, `"name":"code__execute","arguments":{"code":"`+code+`"},"task":{"ttl":60000}`)
		id, _ := mcp.LookupString([]byte(body), "result", "task", "taskId")
		if status, _ := mcp.LookupString([]byte(body), "result", "task", "status"); id == "" || status != "working" {
			t.Fatalf("made: %s", body)
		}
		return id
	}
	ask := func(method, id string) string { return r.dated(t, session, method, `"taskId":"`+id+`"`) }
	done := begin("print(6*7)")
	if got := ask(mcp.MethodTaskResult, done); !strings.Contains(got, `42`) || !strings.Contains(got, mcp.MetaRelatedTask) ||
		!strings.Contains(got, done) || strings.Contains(got, "resultType") {
		t.Errorf("the result: %s", got)
	}
	if got := ask(mcp.MethodTaskGet, done); !strings.Contains(got, `"status":"completed"`) {
		t.Errorf("its state: %s", got)
	}
	long := begin("import time; time.sleep(50)")
	if got := ask(mcp.MethodTaskCancel, long); !strings.Contains(got, `"status":"cancelled"`) {
		t.Errorf("cancelled: %s", got)
	}
	if got := r.dated(t, session, mcp.MethodTaskList, ``); !strings.Contains(got, done) || !strings.Contains(got, long) {
		t.Errorf("listed: %s", got)
	}
	if _, body := r.look(t, done); !strings.Contains(body, "Unknown task") {
		t.Errorf("to a client of 2026-07-28: %s", body)
	}
	if got := r.dated(t, session, mcp.MethodToolsCall, `"name":"code__execute","arguments":{"code":"print(6*7)"}`); !strings.Contains(got, "42") {
		t.Errorf("held open: %s", got)
	}
	if got := r.dated(t, session, mcp.MethodToolsCall, `"name":"code__git_status","arguments":{"path":"/nowhere"},"task":{}`); !strings.Contains(got, "-32601") {
		t.Errorf("a tool without a queue: %s", got)
	}

	id, body := r.begin(t, "code__execute", `{"code":"print(6*7)"}`)
	if id == "" {
		t.Fatal(body)
	}
	testwait.Until(t, patience, "it is done", func() bool { status, _ := r.look(t, id); return status == "completed" })
	if _, body := r.look(t, id); !strings.Contains(body, "42") {
		t.Error(body)
	}
	if got := ask(mcp.MethodTaskGet, id); !strings.Contains(got, "Unknown task") {
		t.Errorf("to a client of 2025-11-25: %s", got)
	}
}

// LOCKDOWN ends the tasks of clients of 2025-11-25 as well.
func TestModesAndDatedTasks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	tool := waitingTool(h)
	tool["class"], tool["risk"] = "write", "medium"
	if err := os.WriteFile(h.path("wait.sh"), []byte("echo x >> \"$1.began\"\nwhile [ ! -e \"$1\" ]; do sleep 0.05; done\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.write(t, servers{"a": fake()}, map[string]any{"tools": []any{tool}})
	r := h.newRunning(t)
	session, _ := r.openDated(t)
	body := r.dated(t, session, mcp.MethodToolsCall, `"name":"tools__job","arguments":{"file":"`+h.path("one")+`"},"task":{}`)
	id, _ := mcp.LookupString([]byte(body), "result", "task", "taskId")
	if id == "" {
		t.Fatal(body)
	}
	if _, err := r.SetMode(t.Context(), "LOCKDOWN", "a test"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.SetMode(t.Context(), "NORMAL", "a test"); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the task is cancelled", func() bool {
		return strings.Contains(r.dated(t, session, mcp.MethodTaskGet, `"taskId":"`+id+`"`), `"status":"cancelled"`)
	})
}
