//go:build !windows

package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sharing is a toolgate section with a store that gateways share.
func (h *home) sharing(t *testing.T, url string) map[string]any {
	t.Helper()
	if err := os.WriteFile(h.path("seal.key"), []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"store": url, "keys": []any{map[string]any{"id": "k", "file": h.path("seal.key")}}}
}

// refusalKind is the kind of the refusal that a JSON-RPC answer is.
func refusalKind(t *testing.T, answer []byte) string {
	t.Helper()
	var a struct {
		Error struct {
			Code int
			Data struct{ Kind string }
		}
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	if a.Error.Data.Kind != "" && a.Error.Code != 1001 {
		t.Errorf("code %d: %s", a.Error.Code, answer)
	}
	return a.Error.Data.Kind
}

func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// auditFile is the audit log of the one configuration of a home.
func auditFile(t *testing.T, h *home) string {
	t.Helper()
	found, err := filepath.Glob(h.path("state/*/audit.jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("audit logs %q, %v", found, err)
	}
	return found[0]
}
