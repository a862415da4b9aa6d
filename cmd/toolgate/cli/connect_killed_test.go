//go:build e2e && !windows

package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A connect that cannot write takes nothing away: what there was before the first
// one comes back as it was.
func TestConnectThatCannotWrite(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, nil)
	h.env["TOOLGATE_LISTEN_HTTP"] = "127.0.0.1:7777"
	const before = "{\"mcpServers\":   {\"x\": {\"command\": \"true\"}}} // mine\n"
	path := h.keep(t, ".cursor/mcp.json", before, 0o600)
	h.ok(t, "connect", "cursor", h.file, "--only")
	connected := h.text(t, path)
	h.keep(t, "limited.sh", "ulimit -f 0\nexec \"$@\"\n", 0o600)
	c := h.command(t.Context(), "connect", "cursor", h.file, "--http")
	c.Args = append([]string{"sh", h.path("limited.sh"), c.Path}, c.Args[1:]...)
	c.Path = "/bin/sh"
	if out, err := c.CombinedOutput(); err == nil {
		t.Fatalf("it has written: %s", out)
	}
	if got := h.text(t, path); got != connected {
		t.Errorf("after the failure: %q", got)
	}
	h.ok(t, "disconnect", "cursor")
	if got := h.text(t, path); got != before {
		t.Errorf("disconnected: %q", got)
	}
}

// Whoever is killed while a file of a person is written leaves the old one or the
// new one, and beside the new one, the old one.
func TestKilledWhileWriting(t *testing.T) {
	t.Parallel()
	const before = "{\"mcpServers\": {\"x\": {\"command\": \"true\"}}}\n"
	for _, tt := range []struct {
		name string
		args []string
		file string
		make func(*home) string // returns what the file has
	}{
		{"connect", []string{"connect", "cursor", "--config"}, ".cursor/mcp.json", func(h *home) string {
			h.write(t, servers{"a": fake()}, nil)
			h.keep(t, ".cursor/mcp.json", before, 0o600)
			return before
		}},
		{"import", []string{"import", "--write", "--config"}, "toolgate.yaml", func(h *home) string {
			h.keep(t, ".cursor/mcp.json", `{"mcpServers": {"x": {"command": "true", "env": {"API_TOKEN": "a-secret-of-some-length"}}}}`, 0o600)
			h.file = h.keep(t, "toolgate.yaml", "mcpServers:\n  a: # mine\n    command: \"true\"\n", 0o600)
			return h.text(t, h.file)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			whole := newHome(t)
			tt.make(whole)
			began := time.Now()
			whole.ok(t, append(tt.args, whole.file)...)
			took := time.Since(began)
			const tries = 24
			for i := range tries {
				h := newHome(t)
				old := tt.make(h)
				p := h.start(t, append(tt.args, h.file)...)
				select {
				case <-p.ended:
				case <-time.After(took * time.Duration(i) / tries):
					_ = p.cmd.Process.Kill() // it may have ended just now
					<-p.ended
				}
				now := h.text(t, h.path(tt.file))
				if now == old {
					continue
				}
				kept, err := filepath.Glob(h.path(tt.file) + ".before-toolgate-*")
				if err != nil || len(kept) != 1 || h.text(t, kept[0]) != old || !strings.Contains(now, map[bool]string{true: "toolgate", false: `x`}[tt.name == "connect"]) {
					t.Errorf("killed in part %d of %d: kept %v, %v, the file has %q", i, tries, kept, err, now)
				}
			}
		})
	}
}
