//go:build !windows

package daemon_test

import (
	"os"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// tasked is a request of a client of 2026-07-28 that knows tasks.
func (r *running) tasked(t *testing.T, method, name, params string) string {
	t.Helper()
	return r.taskedBy(t, "", method, name, params)
}

// taskedBy is tasked for the owner of a key.
func (r *running) taskedBy(t *testing.T, key, method, name, params string) string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"` + string(mcp.V20260728) + `","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"` + mcp.ExtensionTasks + `":{}}}}}}`
	return r.post(t, key, "/mcp", body, mcp.HeaderVersion, string(mcp.V20260728), mcp.HeaderMethod, method, mcp.HeaderName, name).body
}

// begin has a queued tool begin as a task.
func (r *running) begin(t *testing.T, tool, args string) (id, body string) {
	t.Helper()
	body = r.tasked(t, mcp.MethodToolsCall, tool, `"name":"`+tool+`","arguments":`+args)
	id, _ = mcp.LookupString([]byte(body), "result", "taskId")
	return id, body
}

func (r *running) look(t *testing.T, id string) (status, body string) {
	t.Helper()
	body = r.tasked(t, mcp.MethodTaskGet, id, `"taskId":"`+id+`"`)
	status, _ = mcp.LookupString([]byte(body), "result", "status")
	return status, body
}

// waitingTool is a queued tool that waits until a file is there.
func waitingTool(h *home) map[string]any {
	return map[string]any{
		"name": "job", "type": "command", "queue": true, "args": []any{"sh", h.path("wait.sh"), "{file}"}, "sandbox": "off",
		"input_schema": properties("file"), "class": "read_only", "risk": "low", "timeout": "1m",
	}
}

func newQueueHome(t *testing.T, section map[string]any) *home {
	t.Helper()
	h := newHome(t)
	script := "echo x >> \"$1.began\"\nwhile [ ! -e \"$1\" ]; do sleep 0.05; done\necho done \"$1\"\n"
	if err := os.WriteFile(h.path("wait.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	section["tools"] = []any{waitingTool(h)}
	h.write(t, servers{"a": fake()}, section)
	return h
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A queued tool is a task for those who know tasks, and held open for others; what
// does not fit into the queue is refused as busy.
func TestQueuedTools(t *testing.T) {
	t.Parallel()
	h := newQueueHome(t, map[string]any{"queue": map[string]any{"workers": 1, "waiting": 1}})
	r := h.newRunning(t)
	first, body := r.begin(t, "tools__job", `{"file":"`+h.path("one")+`"}`)
	if first == "" {
		t.Fatal(body)
	}
	if status, body := r.look(t, first); status != "working" {
		t.Error(body)
	}
	testwait.Until(t, patience, "the task runs", func() bool { _, err := os.Stat(h.path("one.began")); return err == nil })
	second, body := r.begin(t, "tools__job", `{"file":"`+h.path("two")+`"}`)
	if second == "" {
		t.Fatal(body)
	}
	if _, body := r.begin(t, "tools__job", `{"file":"`+h.path("three")+`"}`); !strings.Contains(body, `"kind":"upstream_busy"`) {
		t.Errorf("beyond the queue: %s", body)
	}
	c := r.client(t)
	if got := tried(t.Context(), c, "tools__job", `{"file":"`+h.path("three")+`"}`); got != "upstream_busy" {
		t.Errorf("beyond the queue: %s", got)
	}
	r.tasked(t, mcp.MethodTaskCancel, second, `"taskId":"`+second+`"`)
	testwait.Until(t, patience, "the task is cancelled", func() bool { status, _ := r.look(t, second); return status == "cancelled" })
	touch(t, h.path("one"))
	testwait.Until(t, patience, "the task is done", func() bool { status, _ := r.look(t, first); return status == "completed" })
	if _, body := r.look(t, first); !strings.Contains(body, "done "+h.path("one")) {
		t.Error(body)
	}
	touch(t, h.path("four"))
	if got := text(t, c, "tools__job", `{"file":"`+h.path("four")+`"}`); got != "done "+h.path("four")+"\n" {
		t.Errorf("a call that is held open: %q", got)
	}
	if _, err := os.Stat(h.path("two.began")); err == nil {
		t.Error("a task that was cancelled before its turn has run")
	}
}

// DEGRADED has no queued tools, and LOCKDOWN ends those that run.
func TestModesAndTheQueue(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	writing := waitingTool(h)
	writing["class"], writing["risk"] = "write", "medium"
	script := "echo x >> \"$1.began\"\nwhile [ ! -e \"$1\" ]; do sleep 0.05; done\n"
	if err := os.WriteFile(h.path("wait.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	h.write(t, servers{"a": fake()}, map[string]any{"tools": []any{writing}})
	r := h.newRunning(t)
	c := r.client(t)
	id, body := r.begin(t, "tools__job", `{"file":"`+h.path("one")+`"}`)
	if id == "" {
		t.Fatal(body)
	}
	held := make(chan string, 1)
	go func() { held <- tried(t.Context(), c, "tools__job", `{"file":"`+h.path("two")+`"}`) }() // ends with the call
	testwait.Until(t, patience, "both run", func() bool {
		_, err := os.Stat(h.path("one.began"))
		_, err2 := os.Stat(h.path("two.began"))
		return err == nil && err2 == nil
	})
	if _, err := r.SetMode(t.Context(), "LOCKDOWN", "a test"); err != nil {
		t.Fatal(err)
	}
	if got := testwait.Receive(t, patience, "the call that is held open ends", held); got != "governance" {
		t.Errorf("the call that is held open: %s", got)
	}
	if _, err := r.SetMode(t.Context(), "NORMAL", "a test"); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the task is cancelled", func() bool { status, _ := r.look(t, id); return status == "cancelled" })
	if _, err := r.SetMode(t.Context(), "DEGRADED", "a test"); err != nil {
		t.Fatal(err)
	}
	if _, body := r.begin(t, "tools__job", `{"file":"`+h.path("three")+`"}`); !strings.Contains(body, `"kind":"governance"`) {
		t.Errorf("in DEGRADED: %s", body)
	}
}

// A gateway that ends waits for the tasks that are under way.
func TestTasksAreDrained(t *testing.T) {
	t.Parallel()
	h := newQueueHome(t, map[string]any{})
	r := h.newRunning(t)
	if id, body := r.begin(t, "tools__job", `{"file":"`+h.path("one")+`"}`); id == "" {
		t.Fatal(body)
	}
	testwait.Until(t, patience, "the task runs", func() bool { _, err := os.Stat(h.path("one.began")); return err == nil })
	ended := make(chan error, 1)
	go func() { ended <- r.End() }() // ends with the gateway
	testwait.Until(t, patience, "no task begins any more", func() bool {
		_, body := r.begin(t, "tools__job", `{"file":"`+h.path("two")+`"}`)
		return !strings.Contains(body, `"taskId"`)
	})
	select {
	case err := <-ended:
		t.Fatalf("it has ended before the task: %v", err)
	default:
	}
	touch(t, h.path("one"))
	if err := testwait.Receive(t, 2*patience, "the gateway ends after the task", ended); err != nil {
		t.Error(err)
	}
}

// A task of a caller whose key is revoked while it waits in the queue does not begin.
func TestQueuedTaskOfARevokedKey(t *testing.T) {
	t.Parallel()
	section := withKeys("alice", "bob")
	section["queue"] = map[string]any{"workers": 1, "waiting": 4}
	h := newQueueHome(t, section)
	r := h.newRunning(t)
	begin := func(key, file string) string {
		body := r.taskedBy(t, key, mcp.MethodToolsCall, "tools__job", `"name":"tools__job","arguments":{"file":"`+h.path(file)+`"}`)
		id, _ := mcp.LookupString([]byte(body), "result", "taskId")
		if id == "" {
			t.Fatal(body)
		}
		return id
	}
	begin("bob", "first")
	begin("alice", "revoked")
	last := begin("bob", "last")
	section["auth"] = withKeys("bob")["auth"]
	h.write(t, servers{"a": fake()}, section)
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"first", "revoked", "last"} {
		touch(t, h.path(file))
	}
	testwait.Until(t, patience, "the last task is done", func() bool {
		body := r.taskedBy(t, "bob", mcp.MethodTaskGet, last, `"taskId":"`+last+`"`)
		status, _ := mcp.LookupString([]byte(body), "result", "status")
		return status == "completed"
	})
	if _, err := os.Stat(h.path("revoked.began")); err == nil {
		t.Error("it has run")
	}
}
