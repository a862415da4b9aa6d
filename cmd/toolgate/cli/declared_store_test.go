//go:build !windows

package cli

import (
	"strings"
	"testing"
)

// The commands do the same over the control socket.
func TestDeclareCommands(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, nil)
	h.up(t)
	path := h.keep(t, "more.yaml", "tools: [{ name: say, type: command, sandbox: auto, args: [echo, here] }]\n", 0o600)
	if got := h.ok(t, "tools", "declare", path, "--file", h.file, "--reason", "asked"); !strings.Contains(got, "tools__say is new") {
		t.Error(got)
	}
	if got := h.ok(t, "tools", "declared", "--file", h.file); !strings.Contains(got, "tools__say") || !strings.Contains(got, "echo") {
		t.Error(got)
	}
	if got := h.ok(t, "call", "tools__say", "--file", h.file); !strings.Contains(got, "here") {
		t.Error(got)
	}
	if got := h.ok(t, "tools", "undeclare", "tools__say", "--file", h.file); !strings.Contains(got, "no longer") {
		t.Error(got)
	}
	if got := h.ok(t, "tools", "declared", "-o", "name", "--file", h.file); strings.TrimSpace(got) != "" {
		t.Errorf("%q", got)
	}
}
