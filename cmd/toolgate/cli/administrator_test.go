//go:build !windows

package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

// Who has the admin role uses the admin API with their own key, under their own
// name; nobody else does, and nobody speaks MCP there.
func TestAdministrators(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address := testport.Address(t)
	section := func(admins ...any) map[string]any {
		key := func(id, tenant string, groups ...string) map[string]any {
			return map[string]any{"id": id, "sha256": sum(id), "subject": id, "tenant": tenant, "groups": groups}
		}
		return map[string]any{
			"listen": map[string]any{"admin": address}, "gate": map[string]any{"open": true},
			"auth": map[string]any{
				"keys":   []any{key("alice", "default", "ops"), key("bob", "default", "dev"), key("mallory", "acme", "ops"), key("carol", "default")},
				"admins": admins,
			},
		}
	}
	ops, carol := map[string]any{"group": "ops"}, map[string]any{"subject": "carol"}
	h.write(t, servers{"a": fake()}, section(ops, carol))
	h.up(t)
	h.ok(t, "ls", h.file, "--wait", "30s")
	client := newClient(t)
	ask := func(method, path, key string, body any) (int, string) {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(answer)
	}
	for _, tt := range []struct {
		method, path, key string
		status            int
	}{
		{http.MethodGet, "/v1/status", "alice", http.StatusOK},
		{http.MethodGet, "/v1/status", "carol", http.StatusOK},
		{http.MethodGet, "/v1/status", "bob", http.StatusForbidden},
		{http.MethodGet, "/v1/status", "mallory", http.StatusForbidden}, // of another tenant's group
		{http.MethodGet, "/v1/status", "nobody", http.StatusUnauthorized},
		{http.MethodGet, "/v1/status", "", http.StatusUnauthorized},
		{http.MethodPost, "/v1/mode?mode=LOCKDOWN&reason=x", "bob", http.StatusForbidden},
		{http.MethodPost, "/v1/stdio", "alice", http.StatusNotFound},
		{http.MethodGet, "/nothing", "alice", http.StatusNotFound},
		{http.MethodGet, "/nothing", "bob", http.StatusForbidden},
	} {
		if status, answer := ask(tt.method, tt.path, tt.key, nil); status != tt.status {
			t.Errorf("%s %s of %q: %d %s, want %d", tt.method, tt.path, tt.key, status, answer, tt.status)
		}
	}
	for _, path := range []string{"/v1/audit?q=event%3Dchange", "/v1/audit/calls/x", "/v1/audit/verify"} {
		for key, want := range map[string]int{"bob": http.StatusForbidden, "mallory": http.StatusForbidden, "nobody": http.StatusUnauthorized, "": http.StatusUnauthorized} {
			if status, answer := ask(http.MethodGet, path, key, nil); status != want {
				t.Errorf("%s of %q: %d %s, want %d", path, key, status, answer, want)
			}
		}
	}
	if status, answer := ask(http.MethodPost, "/v1/mode?mode=ALERT&reason=odd", "alice", nil); status != http.StatusOK || !strings.Contains(answer, `"actor":"alice of default"`) {
		t.Errorf("mode: %d %s", status, answer)
	}
	if got := h.ok(t, "mode", "--file", h.file); !strings.Contains(got, "alice of default") || !strings.Contains(got, "ALERT") {
		t.Errorf("mode: %s", got)
	}
	// The name is that of who does it, whatever the request says.
	change := admin.CatalogChange{Op: admin.CatalogDisable, Name: "a__pid", Actor: "the owner", Reason: "odd"}
	if status, answer := ask(http.MethodPost, "/v1/catalog/change", "carol", change); status != http.StatusOK || !strings.Contains(answer, `"actor":"carol of default"`) {
		t.Errorf("catalog: %d %s", status, answer)
	}
	if status, _ := ask(http.MethodPost, "/v1/servers/none/promote", "alice", nil); status != http.StatusNotFound {
		t.Errorf("a server that is not there: %d", status)
	}

	ask(http.MethodPost, "/v1/breakers/reset?server=a", "alice", nil)
	ask(http.MethodPost, "/v1/reload", "carol", nil)
	ask(http.MethodDelete, "/v1/servers/none", "alice", nil)
	h.ok(t, "reload", h.file)
	requireChanges(t, h,
		"toolgate/mode alice of default", "toolgate/catalog.disable carol", "toolgate/servers.promote alice",
		"toolgate/breaker.reset alice", "toolgate/reload carol", "toolgate/reload "+admin.Operator(),
	)

	// Who has the role asks the audit log.
	for _, tt := range []struct {
		path   string
		status int
		want   string
	}{
		{"/v1/audit?q=method%3Dtoolgate%2Fmode", http.StatusOK, `"subject":"alice of default"`},
		{"/v1/audit?q=event%3Dchange&limit=1", http.StatusOK, `"entries":[{"seq":`},
		{"/v1/audit?q=tol%3Dx", http.StatusBadRequest, "did you mean"},
		{"/v1/audit?limit=0", http.StatusBadRequest, "from 1 to 1000"},
		{"/v1/audit?limit=1001", http.StatusBadRequest, "from 1 to 1000"},
		{"/v1/audit/calls/none", http.StatusNotFound, "no such call"},
		{"/v1/audit/calls/", http.StatusNotFound, ""},
		{"/v1/audit/verify", http.StatusOK, `"findings":[]`},
	} {
		if status, answer := ask(http.MethodGet, tt.path, "alice", nil); status != tt.status || !strings.Contains(answer, tt.want) {
			t.Errorf("%s: %d %s, want %d and %s", tt.path, status, answer, tt.status, tt.want)
		}
	}

	// The role is taken away at once, and given by a person's reload alone.
	h.write(t, servers{"a": fake()}, section(carol, map[string]any{"subject": "bob"}))
	testwait.Until(t, patience, "the role is taken away", func() bool {
		status, _ := ask(http.MethodGet, "/v1/status", "alice", nil)
		return status == http.StatusForbidden
	})
	if status, _ := ask(http.MethodGet, "/v1/status", "bob", nil); status != http.StatusForbidden {
		t.Errorf("a role that nobody has put in force: %d", status)
	}
	h.ok(t, "reload", h.file)
	if status, _ := ask(http.MethodGet, "/v1/status", "bob", nil); status != http.StatusOK {
		t.Errorf("after the reload: %d", status)
	}
}
