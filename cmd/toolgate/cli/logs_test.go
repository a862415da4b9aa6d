//go:build !windows

package cli

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
)

// What a server writes into the log through its errors shows neither the secrets
// that it was given nor anything that a terminal acts on; each line is JSON where
// there is no terminal, and of the level that the file says.
func TestLogOfTheProgram(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const canary = "canary-of-the-log-0123456789"
	h.write(t, servers{
		"bad":  {"command": "sh", "args": []any{"-c", `printf '\033[8mhidden %s\n' "$API_TOKEN" >&2; exit 3`}, "env": map[string]any{"API_TOKEN": canary}},
		"good": fake("one"),
	}, map[string]any{"log": map[string]any{"level": "debug"}})
	p, _ := h.up(t)
	p.says(t, p.err, `"msg":"connected"`)
	p.says(t, p.err, `"msg":"not connected"`)
	if o := h.run(t, "reload", h.file); o.code != exitOK {
		t.Fatalf("%+v", o)
	}
	p.says(t, p.err, `"msg":"configuration reloaded"`)
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	records := 0
	for line := range strings.Lines(p.err.String()) {
		if !strings.HasPrefix(line, "{") {
			continue // for the person who looks on
		}
		records++
		if !json.Valid([]byte(line)) || strings.ContainsAny(line, "\x1b\r") || strings.Contains(line, canary) {
			t.Errorf("the log has %q", line)
		}
	}
	if records < 3 {
		t.Errorf("%d lines are logged", records)
	}
	for _, flag := range []string{"log.level=loud", "log.format=xml"} {
		if o := h.run(t, "validate", h.file, "--set", flag); o.code != exitConfig {
			t.Errorf("%s: %+v", flag, o)
		}
	}
}
