//go:build !windows

package cli

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Of two gateways with one audit log the second is refused, and told who has it; who
// reads is not. When the first has been killed the log is free.
func TestTwoGatewaysOnOneAuditLog(t *testing.T) {
	t.Parallel()
	first, second := newHome(t), newHome(t)
	path := first.path("shared.jsonl")
	for _, h := range []*home{first, second} {
		h.env["SEAL"] = strings.Repeat("0123456789abcdef", 4)
		h.write(t, servers{"a": fake()}, map[string]any{
			"audit": map[string]any{"path": path, "fsync": "always"},
			"keys":  []any{map[string]any{"id": "k1", "env": "SEAL"}},
		})
	}
	p, _ := first.up(t)
	first.pid(t, "a")
	o := second.run(t, "up", second.file)
	if o.code != exitUnreachable {
		t.Errorf("exit code %d", o.code)
	}
	for _, want := range []string{path, "in use by process " + strconv.Itoa(p.cmd.Process.Pid), "toolgate.audit.path"} {
		if !strings.Contains(o.stderr, want) {
			t.Errorf("the second gateway does not say %q: %s", want, o.stderr)
		}
	}
	first.ok(t, "reload", first.file) // opens the log anew
	if again := second.run(t, "up", second.file); again.code != exitUnreachable {
		t.Errorf("after a reload of the first: %+v", again)
	}
	first.ok(t, "audit", "verify", "--file", first.file)
	first.ok(t, "audit", "export", "--file", first.file)

	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.wait(t)
	q, _ := second.up(t)
	second.pid(t, "a")
	if code := q.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if calls := len(auditLines(t, path)); calls < 3 { // two calls and a reload
		t.Errorf("%d entries", calls)
	}
}
