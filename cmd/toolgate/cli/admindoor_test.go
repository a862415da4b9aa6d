//go:build !windows

package cli

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/testport"
)

// The control side on an address asks for the admin token, and does not speak
// MCP for whoever has it.
func TestAdminAddress(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address := testport.Address(t)
	h.write(t, servers{"a": fake("one")}, map[string]any{"listen": map[string]any{"admin": address}})
	h.up(t)
	token, err := os.ReadFile(h.stateFile(t, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, path, token string
		status              int
	}{
		{http.MethodGet, "/v1/status", "", http.StatusUnauthorized},
		{http.MethodGet, "/v1/status", "x", http.StatusUnauthorized},
		{http.MethodGet, "/v1/status", strings.TrimSpace(string(token)), http.StatusOK},
		{http.MethodPost, "/v1/stdio", strings.TrimSpace(string(token)), http.StatusNotFound},
		{http.MethodGet, "/nothing", "", http.StatusUnauthorized},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, "http://"+address+tt.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Toolgate-Token", tt.token)
		resp, err := newClient(t).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tt.status {
			t.Errorf("%s %s: %d %s, %v; want %d", tt.method, tt.path, resp.StatusCode, body, err, tt.status)
		}
	}
	// Where others could listen, the token is not sent in the clear.
	other := newHome(t)
	other.write(t, servers{}, map[string]any{"listen": map[string]any{"admin": "0.0.0.0:1"}})
	if o := other.run(t, "up", "-c", "toolgate.yaml"); o.code != exitConfig || !strings.Contains(o.stderr, "listen.admin") {
		t.Errorf("%+v", o)
	}
}

// A policy that is changed is announced to those whose lists it changes.
func TestPolicyChangeIsAnnounced(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	policy := func(rule string) {
		t.Helper()
		if err := os.MkdirAll(h.path("policies"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(h.path("policies/p.rego"), []byte("package toolgate\n\ndefault decision := false\n\n"+rule+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	policy(`decision if input.action`)
	h.write(t, servers{"a": fake("one")}, map[string]any{"opa": map[string]any{"path": "policies"}})
	h.up(t)
	c := h.stdioClient(t)
	c.write(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`+"\n")
	c.says(t, c.out, `"id":2,.*"a__pid"`)
	policy(`decision if input.tool_name != "a__pid"`)
	c.says(t, c.out, "notifications/tools/list_changed")
}
