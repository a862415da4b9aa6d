//go:build e2e && unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

// taskScenarios are those of the suite about the extension for tasks, which the
// reference server does not have; the server behind toolgate is tasks-server.
var taskScenarios = []string{
	"tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal", "tasks-mrtr-input",
	"tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-required-task-error", "tasks-mrtr-composition",
}

// tasksServer is the server with tasks, built when it is first needed.
var tasksServer = sync.OnceValue(func() installed {
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	return build(ctx, "tasks-server", "./internal/e2e/cmd/tasks-server")
})

// tasksEntry is the configuration of the server with tasks, over HTTP started
// here.
func tasksEntry(t *testing.T, transport, era string) object {
	t.Helper()
	if transport == "stdio" {
		return object{"command": built(t, tasksServer()), "args": []string{"-era", era}}
	}
	addr := testport.Address(t)
	start(t, "tasks-server", exec.Command(built(t, tasksServer()), "-http", addr, "-era", era))
	if !testwait.Within(10*time.Second, func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}) {
		t.Fatalf("the server with tasks does not listen on %s", addr)
	}
	return object{"type": "http", "url": "http://" + addr}
}

// tasksGateway puts toolgate in front of the server with tasks, which may ask for
// all that there is.
func tasksGateway(t *testing.T, namespace, transport, era string) *gateway {
	t.Helper()
	tool := "slow_compute"
	if namespace != "" {
		tool = namespace + "__" + tool
	}
	return startGateway(t, object{"tasks": tasksEntry(t, transport, era)}, object{"servers": object{"tasks": object{
		"namespace": namespace, "client_requests": object{"sampling": "allow", "elicitation": "allow", "roots": "allow"},
	}}}, tool)
}

var passedLine = regexp.MustCompile(`(?m)^Passed: (\d+)/(\d+), 0 failed, 0 warnings`)

// TestConformanceTasks runs the scenarios of tasks through toolgate: every check
// of each must pass.
func TestConformanceTasks(t *testing.T) {
	need(t, lab.node)
	for _, transport := range []string{"http", "stdio"} {
		t.Run("tasks-"+transport, func(t *testing.T) {
			t.Parallel()
			g := tasksGateway(t, "", transport, "both")
			for _, name := range taskScenarios {
				t.Run(name, func(t *testing.T) {
					folder := t.TempDir()
					out, err := runServerSuite(t.Context(), "--url", g.mcp, "--scenario", name, "-o", folder)
					for _, wrong := range wrongChecks(t, folder, name) {
						t.Error(wrong)
					}
					passed := passedLine.FindStringSubmatch(out)
					if err != nil || passed == nil || passed[1] != passed[2] || passed[1] == "0" {
						t.Errorf("%v, passed %q:\n%s", err, passed, newest(out, 3000))
					}
				})
			}
		})
	}
}

// modernCall makes one request of a modern client with the given capabilities.
func (r *raw) modernCall(ctx context.Context, method, name string, params, capabilities object) (json.RawMessage, error) {
	r.id++
	params = with(params, object{"_meta": object{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": capabilities,
	}})
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": r.id, "method": method, "params": params})
	if err != nil {
		return nil, fmt.Errorf("writing a %s request: %w", method, err)
	}
	a, err := r.send(ctx, http.MethodPost, r.url, string(body), map[string]string{
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return a.result(method, r.id)
}

// TestTasksDriven calls a tool that runs only as a task by clients that do not
// have its kind of tasks: the answer is what the tool said.
func TestTasksDriven(t *testing.T) {
	for _, transport := range []string{"http", "stdio"} {
		for _, era := range []string{"legacy", "modern", "both"} {
			t.Run("tasks-"+transport+"-"+era, func(t *testing.T) {
				t.Parallel()
				g := tasksGateway(t, "w", transport, era)
				for _, declare := range []object{nil, {"elicitation": object{}}} {
					old := &raw{url: g.mcp, declare: declare}
					if _, err := old.callTool(t.Context(), "w__failing_job", object{}); err == nil || err.Error() != "tool error: the job failed" {
						t.Errorf("a client of 2025-11-25 with %v: %v", declare, err)
					}
				}
				if era != "legacy" {
					return // where a modern client has to declare tasks
				}
				result, err := (&raw{url: g.mcp}).modernCall(t.Context(), "tools/call", "w__failing_job", object{"name": "w__failing_job"}, object{})
				if err == nil {
					_, err = toolText(result)
				}
				if err == nil || err.Error() != "tool error: the job failed" {
					t.Errorf("a modern client: %v", err)
				}
			})
		}
	}
}

// TestTasksOf20251125 takes a task of 2025-11-25 through its life, over both
// transports of its server.
func TestTasksOf20251125(t *testing.T) {
	for _, transport := range []string{"http", "stdio"} {
		t.Run("tasks-"+transport, func(t *testing.T) {
			t.Parallel()
			g := tasksGateway(t, "w", transport, "legacy")
			c, other := &raw{url: g.mcp}, &raw{url: g.mcp}
			var made struct {
				Task struct{ TaskID, Status string }
			}
			err := c.into(t.Context(), &made, "tools/call", object{
				"name": "w__slow_compute", "arguments": object{"seconds": 0.3, "label": "x"}, "task": object{"ttl": 60000},
			})
			if err != nil || made.Task.Status != "working" || made.Task.TaskID == "" {
				t.Fatalf("made %+v, %v", made, err)
			}
			id := object{"taskId": made.Task.TaskID}
			var listed struct{ Tasks []struct{ TaskID string } }
			if err := c.into(t.Context(), &listed, "tasks/list", object{}); err != nil || len(listed.Tasks) != 1 || listed.Tasks[0].TaskID != made.Task.TaskID {
				t.Errorf("listed %+v, %v", listed, err)
			}
			result, err := c.call(t.Context(), "tasks/result", id)
			if err != nil || !strings.Contains(string(result), `"io.modelcontextprotocol/related-task":{"taskId":`+strconv.Quote(made.Task.TaskID)+`}`) {
				t.Errorf("the result is %s, %v", result, err)
			}
			if text, err := toolText(result); err != nil || !strings.HasPrefix(text, `computed "x"`) {
				t.Errorf("the result says %q, %v", text, err)
			}
			// Another session of the same user has the same tasks.
			var now struct{ TaskID, Status string }
			if err := other.into(t.Context(), &now, "tasks/get", id); err != nil || now.Status != "completed" || now.TaskID != made.Task.TaskID {
				t.Errorf("another session sees %+v, %v", now, err)
			}
			if _, err := c.call(t.Context(), "tasks/cancel", id); err == nil || !strings.Contains(err.Error(), "-32602") {
				t.Errorf("cancelling what has ended: %v", err)
			}
			if _, err := c.call(t.Context(), "tasks/get", object{"taskId": made.Task.TaskID + "A"}); err == nil || !strings.Contains(err.Error(), "-32602") {
				t.Errorf("a forged id: %v", err)
			}
		})
	}
}

// into makes a request and reads its result.
func (r *raw) into(ctx context.Context, result any, method string, params object) error {
	got, err := r.call(ctx, method, params)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(got, result); err != nil {
		return fmt.Errorf("reading the result of %s: %w", method, err)
	}
	return nil
}
