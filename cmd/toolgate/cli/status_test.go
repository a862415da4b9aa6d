//go:build !windows

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/fakeserver"
	"github.com/toolgate/toolgate/internal/testwait"
)

// One screen has everything that runs, and says so where nothing does.
func TestStatus(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake(), "bad": {"command": "/bin/sh", "args": []string{"-c", "exit 3"}}}, map[string]any{
		"budgets": []any{map[string]any{"name": "b", "per": "tenant", "match": "*", "unit": "calls", "limit": 10, "window": "day"}},
	})
	if o := h.run(t, "status", h.file); o.code != exitUnreachable || !strings.Contains(o.stderr, "toolgate up") {
		t.Errorf("before the start: %+v", o)
	}
	h.up(t)
	h.ok(t, "call", "a__echo", "text=x", "--file", h.file)
	screen := h.ok(t, "status", h.file)
	for _, want := range []string{"mode NORMAL, ready", "a ", "bad ", "tenant"} {
		if !strings.Contains(screen, want) {
			t.Errorf("the screen lacks %q:\n%s", want, screen)
		}
	}
	var now overview
	if err := json.Unmarshal([]byte(h.ok(t, "status", h.file, "-o", "json")), &now); err != nil {
		t.Fatal(err)
	}
	if now.Mode != "NORMAL" || !now.Ready || len(now.Servers) != 2 || len(now.Budgets) == 0 || now.Approvals == nil || now.Breakers == nil {
		t.Errorf("as data: %+v", now)
	}
	if got := h.ok(t, "status", h.file, "-o", "name"); got != "a\nbad\n" {
		t.Errorf("names: %q", got)
	}
}

// Calls are counted by tool, and two looks tell what happened between them.
func TestTop(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, nil)
	h.up(t)
	for range 3 {
		h.ok(t, "call", "a__echo", "text=x", "--file", h.file)
	}
	h.run(t, "call", "a__nothing", "--file", h.file)
	var l look
	if err := json.Unmarshal([]byte(h.ok(t, "top", h.file, "--count", "1", "-o", "json")), &l); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(l.Tools, func(r topTool) bool { return r.Tool == "a__echo" })
	if i < 0 || l.Tools[i].Calls != 3 || l.Tools[i].Failed+l.Tools[i].Denied != 0 || l.Mode != "NORMAL" {
		t.Errorf("%+v", l)
	}
	lines := strings.Split(strings.TrimSpace(h.ok(t, "top", h.file, "--count", "2", "--every", "100ms", "-o", "json")), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d looks", len(lines))
	}
	if err := json.Unmarshal([]byte(lines[1]), &l); err != nil || l.Seconds <= 0 || l.Tools[0].Calls != 0 || l.Tools[0].AllTime == 0 {
		t.Errorf("the second look: %s, %v", lines[1], err)
	}
	if got := h.ok(t, "top", h.file, "--count", "1"); strings.Contains(got, "\x1b") || !strings.Contains(got, "RATE") {
		t.Errorf("piped: %q", got)
	}
	if o := h.run(t, "top", h.file, "--every", "1ms"); o.code != exitUsage {
		t.Errorf("%+v", o)
	}
}

// However many names are called, few are kept apart.
func TestActivityIsBounded(t *testing.T) {
	t.Parallel()
	var a records.Activity
	for i := range admin.MaxActivity + 100 {
		a.Count("s", fmt.Sprint("tool", i), audit.OutcomeOK, 1)
	}
	a.Count("s", "", audit.OutcomeDenied, 1)
	list, calls := a.List(), int64(0)
	for _, t := range list {
		calls += t.Calls
	}
	if len(list) > admin.MaxActivity || calls != int64(admin.MaxActivity+101) {
		t.Errorf("%d tools with %d calls", len(list), calls)
	}
}

// What a server writes can be read, also while it goes on, and from one process to
// the next.
func TestLogs(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	text := fmt.Sprintf("cd %q\necho first >&2\nprintf '\\033[31mred\\033[0m\\n' >&2\n(while [ ! -e go ]; do sleep 0.02; done; echo later >&2) &\nexec %q %s\n", h.dir, os.Args[0], fakeserver.Command)
	h.write(t, servers{"a": {"command": "/bin/sh", "args": []string{h.keep(t, "talks.sh", text, 0o700)}}}, nil)
	h.up(t)
	if got := h.ok(t, "logs", "a", "--file", h.file); got != "first\nred\n" {
		t.Errorf("%q", got)
	}
	p := h.start(t, "logs", "a", "-f", "--file", h.file)
	p.says(t, p.out, "first\nred\n")
	h.keep(t, "go", "", 0o600)
	p.says(t, p.out, "first\nred\nlater\n")
	if code := p.stop(t, syscall.SIGINT); code != exitOK {
		t.Errorf("interrupted: exit code %d", code)
	}
	var line logLine
	first, _, _ := strings.Cut(h.ok(t, "logs", "a", "--file", h.file, "-o", "json"), "\n")
	if err := json.Unmarshal([]byte(first), &line); err != nil || line.Text != "first" || line.Line != 1 || line.Server != "a" || line.Process == 0 {
		t.Errorf("%s, %v", first, err)
	}
	if o := h.run(t, "logs", "nobody", "--file", h.file); o.code != exitUsage || !strings.Contains(o.stderr, "toolgate ls") {
		t.Errorf("%+v", o)
	}
}

// What a process wrote before the last restart can be read, and why it ended.
func TestPreviousLogs(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	script := h.keep(t, "counts.sh", fmt.Sprintf("cd %q\necho x >> starts\necho \"start $(wc -l < starts) with $API_TOKEN\" | tr -s ' ' >&2\n[ -e crash ] && exit 3\nexec %q %s\n",
		h.dir, os.Args[0], fakeserver.Command), 0o700)
	const canary = "canary-of-previous-0123456789"
	h.write(t, servers{"a": {"command": "/bin/sh", "args": []string{script}, "env": map[string]any{"API_TOKEN": canary}}}, nil)
	h.up(t)
	none := h.run(t, "logs", "a", "--previous", "--file", h.file)
	if none.code != exitOK || none.stdout != "" || !strings.Contains(none.stderr, "a had no process before") {
		t.Errorf("without a restart: %+v", none)
	}
	for i := range 2 { // one is kept, not the first
		h.ok(t, "servers", "restart", "a", "--file", h.file)
		want := fmt.Sprintf("start %d with ", i+1)
		testwait.Until(t, patience, want, func() bool {
			return strings.HasPrefix(h.ok(t, "logs", "a", "--previous", "--file", h.file), want)
		})
		if last := h.ok(t, "logs", "a", "--file", h.file); !strings.HasPrefix(last, fmt.Sprintf("start %d with ", i+2)) {
			t.Errorf("the last process wrote %q", last)
		}
	}
	h.keep(t, "crash", "", 0o600)
	h.run(t, "servers", "restart", "a", "--file", h.file)
	var o outcome
	testwait.Until(t, patience, "a crashed process", func() bool {
		o = h.run(t, "logs", "a", "-p", "--file", h.file)
		return strings.Contains(o.stderr, "exited with code 3")
	})
	if strings.Contains(o.stdout+o.stderr, canary) || strings.Count(o.stdout, "\n") != 1 {
		t.Errorf("%+v", o)
	}
	if o := h.run(t, "logs", "a", "-p", "-f", "--file", h.file); o.code != exitUsage {
		t.Errorf("both: %+v", o)
	}
}

// Who calls a tool of a server that has failed since it listed it is told why.
func TestCallOfAFailedServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	broken := h.path("broken")
	h.write(t, servers{"a": fake("broken=" + broken)}, nil)
	h.up(t)
	h.keep(t, "broken", "", 0o600)
	h.run(t, "servers", "restart", "a", "--file", h.file)
	testwait.Until(t, patience, "the server has failed", func() bool { return h.servers(t)["a"].State == "failed" || h.servers(t)["a"].State == "stale" })
	o := h.run(t, "call", "a__echo", "--file", h.file)
	if said := o.stdout + o.stderr; o.code != exitTool && o.code != exitUnreachable || !strings.Contains(said, "exited with code 1") || !strings.Contains(said, "the server is broken") {
		t.Errorf("%+v", o)
	}
}
