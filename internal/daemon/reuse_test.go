//go:build !windows

package daemon_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy"
)

// A cached tool's results are reused where the tool is read-only, by the operator's
// class or else by the server's hint, and for one mode and one configuration.
func TestCacheOfAReadOnlyTool(t *testing.T) {
	t.Parallel()
	cached := func(tool string, annotations map[string]any) map[string]any {
		shape := map[string]any{"cache": map[string]any{"ttl": "1h"}}
		if annotations != nil {
			shape["annotations"] = annotations
		}
		return map[string]any{"a": map[string]any{"tools": map[string]any{tool: shape}}}
	}
	classed := func(class string) map[string]any {
		return map[string]any{"a__pid": map[string]any{"class": class, "risk": "low"}}
	}
	tests := []struct {
		name, tool  string
		classes     map[string]any
		annotations map[string]any
		reused      bool
	}{
		{name: "nobody says anything", tool: "echo"},
		{name: "listed as read-only by the server", reused: true},
		{name: "classed read-only", classes: classed("read_only"), reused: true},
		{name: "annotated by the operator", annotations: map[string]any{"readOnlyHint": true}, reused: true},
		{name: "classed as writing, whatever the hint says", classes: classed("write"), annotations: map[string]any{"readOnlyHint": true}},
		{name: "hinted to be destructive too", annotations: map[string]any{"readOnlyHint": true, "destructiveHint": true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tool := cmp.Or(tt.tool, "pid")
			h := newHome(t)
			toolgate := governing(tt.classes, "mode", "NORMAL")
			toolgate["servers"] = cached(tool, tt.annotations)
			h.write(t, servers{"a": fake()}, toolgate)
			r := h.newRunning(t)
			c := r.client(t)
			call := func() (reused bool) {
				t.Helper()
				result, err := c.Request(t.Context(), mcp.MethodToolsCall, []byte(`{"name":"a__`+tool+`","arguments":{}}`))
				if err != nil || string(mcp.Lookup(result, "isError")) == "true" {
					t.Fatalf("%s, %v", result, err)
				}
				return mcp.Lookup(result, "_meta", proxy.ReuseKey) != nil
			}
			if call() {
				t.Error("the first result was reused")
			}
			if got := call(); got != tt.reused {
				t.Errorf("reused %v, want %v", got, tt.reused)
			}
			if !tt.reused {
				return
			}
			if tt.classes == nil { // DEGRADED lets every tool pass that costs little
				if _, err := r.SetMode(t.Context(), "DEGRADED", "to see"); err != nil {
					t.Fatal(err)
				}
			} else if _, err := r.SetMode(t.Context(), "LOCKDOWN", "to see"); err != nil {
				t.Fatal(err)
			}
			if call() {
				t.Error("a result of another mode was reused")
			}
			if !call() {
				t.Error("a result of the same mode was not reused")
			}
		})
	}
}

// A declared request that is read-only asks its service once for equal calls of one
// principal.
func TestCacheOfADeclaredTool(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "answer %d", asked.Add(1))
	}))
	t.Cleanup(service.Close)
	h := newHome(t)
	toolgate := declaring(map[string]any{
		"name": "status", "type": "http", "url": service.URL + "/{id}", "input_schema": properties("id"), "class": "read_only", "risk": "low",
		"cache": map[string]any{"ttl": "1h"},
	})
	h.write(t, servers{"a": fake()}, toolgate)
	c := h.newRunning(t).client(t)
	for range 3 {
		if got := text(t, c, "tools__status", `{"id":"main"}`); got != "answer 1" {
			t.Error(got)
		}
	}
	if got := text(t, c, "tools__status", `{"id":"other"}`); got != "answer 2" {
		t.Error(got)
	}
}
