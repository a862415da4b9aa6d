//go:build !windows

package daemon_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// The tool that reads kept results is listed while a server keeps some, and reads those of
// its caller alone.
func TestReadResultFollowsTheSettings(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	section := withKeys("alice", "bob")
	h.write(t, servers{"a": fake("echo")}, section)
	r := h.newRunning(t)
	alice, bob := r.Client(t, "alice"), r.Client(t, "bob")
	listed := func(want bool) {
		t.Helper()
		all, err := names(t, alice)
		if err != nil || slices.Contains(all, "toolgate__read_result") != want {
			t.Errorf("want %v: %v, %v", want, all, err)
		}
	}
	listed(false)
	section["servers"] = map[string]any{"a": map[string]any{"results": map[string]any{"max_bytes": 4096, "larger": "keep"}}}
	h.write(t, servers{"a": fake("echo")}, section)
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	listed(true)
	got, err := alice.Request(t.Context(), mcp.MethodToolsCall, []byte(`{"name":"a__echo","arguments":{"x":"`+strings.Repeat("y", 9000)+`"}}`))
	if err != nil {
		t.Fatal(err)
	}
	_, id, found := strings.Cut(string(got), "toolgate://results/")
	if !found || !strings.Contains(string(got), "The tool toolgate__read_result returns parts of it.") {
		t.Fatalf("got %s", got)
	}
	id = id[:32]
	if got := text(t, alice, "toolgate__read_result", `{"id":"`+id+`","select":".x | length"}`); got != "9000" {
		t.Errorf("got %s", got)
	}
	never := text(t, bob, "toolgate__read_result", `{"id":"`+strings.Repeat("a", 32)+`"}`)
	if got := text(t, bob, "toolgate__read_result", `{"id":"`+id+`"}`); got != never || !strings.HasPrefix(got, "There is no kept result") {
		t.Errorf("got %s, and %s for an id that never was", got, never)
	}
	delete(section, "servers")
	h.write(t, servers{"a": fake("echo")}, section)
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	listed(false)
}
