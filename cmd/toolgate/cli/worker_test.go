//go:build !windows

package cli

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// A worker that is told to end takes no more jobs, and finishes those that it has: their
// results arrive. What waits is for the next worker.
func TestWorkerDrains(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	script := h.keep(t, "slow.sh", "echo $$ >\"$1.began\"; while [ ! -e \"$1.go\" ]; do sleep 0.02; done; echo ran \"$1\"\n", 0o700)
	h.write(t, servers{}, map[string]any{
		"limits": map[string]any{"drain": "1m"}, "log": map[string]any{"level": "info"},
		"tools": []any{map[string]any{
			"name": "slow", "namespace": "own", "type": "command", "sandbox": "off", "args": []any{"sh", script, "{file}"},
			"input_schema": map[string]any{"type": "object", "properties": map[string]any{"file": map[string]any{"type": "string"}}, "required": []string{"file"}},
		}},
		"queue": map[string]any{
			"engine": "postgres", "url": postgres.SchemaURL(t),
			"queues": map[string]any{"gpu": map[string]any{"key": strings.Repeat("k", 64), "tools": []any{"own__slow"}}},
		},
	})
	_, url := h.up(t)
	call := func(file string) chan string {
		answer := make(chan string, 1)
		params, err := json.Marshal(map[string]any{"name": "own__slow", "arguments": map[string]string{"file": h.path(file)}})
		if err != nil {
			t.Fatal(err)
		}
		client := newClient(t)
		go func() { // ends with the call
			_, body := post(t, client, url, "", mcp.MethodToolsCall, "own__slow", strings.TrimSuffix(strings.TrimPrefix(string(params), "{"), "}")+",")
			answer <- string(body)
		}()
		return answer
	}
	began := func(file string) bool {
		_, err := os.Stat(h.path(file + ".began"))
		return err == nil
	}
	work := func() *process { return h.start(t, "worker", "--queue", "gpu", "--capacity", "2", h.file) }

	worker, first := work(), call("first")
	testwait.Until(t, patience, "the first call runs", func() bool { return began("first") })
	if err := worker.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	worker.says(t, worker.err, "takes no more jobs")
	second := call("second")
	select {
	case got := <-first:
		t.Fatalf("it is answered before it ends: %s", got)
	case <-worker.ended:
		t.Fatal("the worker ends before its job")
	default:
	}
	h.keep(t, "first.go", "", 0o600)
	if got := <-first; !strings.Contains(got, "ran "+h.path("first")) {
		t.Errorf("answered %s", got)
	}
	if code := worker.wait(t); code != exitOK {
		t.Errorf("exit code %d: %s", code, worker.err)
	}
	if began("second") {
		t.Error("a worker that ends takes another job")
	}
	h.keep(t, "second.go", "", 0o600)
	next := work()
	if got := <-second; !strings.Contains(got, "ran "+h.path("second")) {
		t.Errorf("answered %s", got)
	}
	if code := next.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d: %s", code, next.err)
	}
}
