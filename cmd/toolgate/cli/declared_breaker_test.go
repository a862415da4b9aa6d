//go:build !windows

package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/testwait"
)

// The breaker of a declared tool is listed with its state, and reset.
func TestBreakersOfDeclaredTools(t *testing.T) {
	t.Parallel()
	s := newSick(t, reset)
	s.ill.Store(true)
	h := newHome(t)
	h.write(t, servers{"a": fake()}, map[string]any{"tools": []any{map[string]any{
		"name": "ill", "type": "http", "method": "POST", "url": s.URL, "class": "read_only", "input_schema": map[string]any{"type": "object"},
		"body": map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call"},
	}}})
	r := h.newRunning(t)
	c := r.client(t, &options{})
	of := func() (whole, tool *admin.Breaker) {
		for _, b := range r.Breakers() {
			switch {
			case b.Server == "tools" && b.Tool == "ill":
				tool = &b
			case b.Server == "tools":
				whole = &b
			}
		}
		return whole, tool
	}
	testwait.Until(t, patience, "the breaker opens", func() bool {
		tried(t.Context(), c, "tools__ill", `{}`)
		whole, tool := of()
		return whole != nil && tool != nil && tool.State == "open"
	})
	if err := r.ResetBreaker("tools", "ill"); err != nil {
		t.Fatal(err)
	}
	if _, tool := of(); tool.State != "closed" {
		t.Errorf("after it was reset: %+v", tool)
	}
	for _, wrong := range [][2]string{{"tools", "none"}, {"none", ""}} {
		if r.ResetBreaker(wrong[0], wrong[1]) == nil {
			t.Errorf("%q was reset", wrong)
		}
	}
	all := r.Breakers()
	for i := 1; i < len(all); i++ {
		if all[i-1].Server > all[i].Server {
			t.Errorf("not sorted: %+v", all)
		}
	}
}

// An answer of a declared tool's service is an answer, whatever its status: it is
// told to the caller, and opens no breaker.
func TestBreakersOfDeclaredToolsCountNoStatus(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(service.Close)
	h := newHome(t)
	h.write(t, servers{}, map[string]any{"tools": []any{map[string]any{"name": "ill", "type": "http", "url": service.URL}}})
	r := h.newRunning(t)
	c := r.client(t, &options{})
	for range 30 { // more than any of the conditions needs
		if got := text(t, c, "tools__ill", `{}`); !strings.Contains(got, "The service answered 500") {
			t.Fatal(got)
		}
	}
	seen := false
	for _, b := range r.Breakers() {
		if b.Server == "tools" && b.Tool == "ill" {
			seen = true
			if b.State != "closed" {
				t.Errorf("%+v", b)
			}
		}
	}
	if !seen {
		t.Error("the tool has no breaker")
	}
}
