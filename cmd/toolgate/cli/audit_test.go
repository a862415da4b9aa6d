//go:build !windows

package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/testwait"
)

// auditLines are the lines of an audit log that are about ended calls and
// changes, as somebody reads them who knows JSON alone.
func auditLines(t *testing.T, path string) []map[string]any {
	t.Helper()
	entries, err := audit.Closed(path)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]map[string]any, 0, len(entries))
	for i := range entries {
		text, err := json.Marshal(&entries[i])
		if err != nil {
			t.Fatal(err)
		}
		var e map[string]any
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// requireChanges waits until the audit log of a gateway tells of changes, each by
// its method and who made it.
func requireChanges(t *testing.T, h *home, want ...string) {
	t.Helper()
	for _, change := range want {
		testwait.Until(t, patience, "the audit log tells of "+change, func() bool {
			return slices.ContainsFunc(h.entries(t), func(e map[string]any) bool {
				who, _ := e["principal"].(map[string]any)
				return fmt.Sprint(e["method"], " ", who["subject"]) == change
			})
		})
	}
}
