//go:build !windows

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// slowCall makes a call that ends when a file is there, and returns once its
// server has it. answer gets what it was answered.
func slowCall(t *testing.T, h *home, url string) (answer chan string, finish func()) {
	t.Helper()
	began, wait := h.path("began"), h.path("go")
	answer = make(chan string, 1)
	client := newClient(t)
	params, err := json.Marshal(map[string]any{"name": "a__slow", "arguments": map[string]string{"file": began, "wait": wait}})
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the call
		_, body := post(t, client, url, "", mcp.MethodToolsCall, "a__slow", strings.TrimSuffix(strings.TrimPrefix(string(params), "{"), "}")+",")
		answer <- string(body)
	}()
	testwait.Until(t, patience, "the call is at its server", func() bool {
		_, err := os.Stat(began)
		return err == nil
	})
	return answer, func() {
		if err := os.WriteFile(wait, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

// entries are the lines of the audit log that are about ended calls and changes.
func (h *home) entries(t *testing.T) []map[string]any {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(h.dir, "state", "*", "audit.jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("audit logs: %v, %v", found, err)
	}
	return auditLines(t, found[0])
}

// refused tells whether nothing listens at a URL any more.
func refused(t *testing.T, url string) bool {
	t.Helper()
	resp, err := newClient(t).Get(url + "/livez")
	if err == nil {
		resp.Body.Close()
	}
	return err != nil
}
