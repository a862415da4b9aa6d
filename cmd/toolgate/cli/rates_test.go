//go:build !windows

package cli

import (
	"strings"
	"testing"
)

// rated is a toolgate section with rates.
func rated(rates ...map[string]any) map[string]any { return map[string]any{"rates": rates} }

// A call that comes too soon has the exit code of a budget.
func TestExitCodeOfARate(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, rated(map[string]any{"per": "principal", "limit": 1, "window": "1h"}))
	h.up(t)
	h.ok(t, "ls", h.file, "--wait", "30s")
	h.ok(t, "call", "a__pid", "--file", h.file)
	o := h.run(t, "call", "a__pid", "--file", h.file)
	if o.code != exitBudget || !strings.Contains(o.stdout, "the limit of 1 call in 1h per principal is used up. Wait") {
		t.Errorf("exit code %d: %s%s", o.code, o.stdout, o.stderr)
	}
}
