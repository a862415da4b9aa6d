//go:build !windows

package daemon_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testwait"
)

// LOCKDOWN cancels what runs and is not read-only and of low risk by the
// operator's word, and lets nothing else begin; a new start changes nothing of
// it, whatever the file says.
func TestLockdown(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, governing(map[string]any{"a__pid": readOnly}, "mode", "NORMAL"))
	r := h.newRunning(t)
	c := r.client(t)
	began := h.path("began")
	running := make(chan string, 1)
	caller := r.client(t)
	go func() { // ends with the call
		running <- tried(t.Context(), caller, "a__slow", `{"file":"`+began+`","wait":"`+h.path("never")+`"}`)
	}()
	testwait.Until(t, patience, "the call is at the server", func() bool { _, err := os.Stat(began); return err == nil })
	if m, err := r.Mode(t.Context()); err != nil || m.Mode != "NORMAL" || m.Actor != "configuration" {
		t.Errorf("at first %+v, %v", m, err)
	}
	for _, bad := range [][2]string{{"PANIC", "x"}, {"LOCKDOWN", ""}} {
		if _, err := r.SetMode(t.Context(), bad[0], bad[1]); err == nil {
			t.Errorf("%q for %q was set", bad[0], bad[1])
		}
	}
	m, err := r.SetMode(t.Context(), "lockdown", "an agent runs wild")
	if err != nil || m.Mode != "LOCKDOWN" || m.Reason != "an agent runs wild" || !strings.HasPrefix(m.Actor, "user ") || m.Since == nil {
		t.Fatalf("%+v, %v", m, err)
	}
	if got := testwait.Receive(t, patience, "the running call ends", running); got != "governance" {
		t.Errorf("the running call: %s", got)
	}
	check := func(c *lineclient.Client, when string) {
		t.Helper()
		for tool, want := range map[string]string{"a__pid": "ok", "a__echo": "governance", "a__slow": "governance"} {
			if got := tried(t.Context(), c, tool, "{}"); got != want {
				t.Errorf("%s, %s: %s, want %s", when, tool, got, want)
			}
		}
	}
	check(c, "in LOCKDOWN")
	if s := r.Status(); s.Mode == nil || s.Mode.Mode != "LOCKDOWN" {
		t.Errorf("status %+v", s.Mode)
	}
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	again := h.newRunning(t)
	check(again.client(t), "after a new start")
}

// A mode that another process sets in the store is in force here.
func TestModeOfAnotherProcess(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, nil)
	r := h.newRunning(t)
	c := r.client(t)
	if got := tried(t.Context(), c, "a__pid", "{}"); got != "ok" {
		t.Fatal(got)
	}
	if err := r.Store.Modes().Set(t.Context(), "LOCKDOWN", store.Change{Actor: "someone else", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the mode is in force", func() bool { return tried(t.Context(), c, "a__pid", "{}") == "governance" })
	// One of a newer version, which is not known here, lets nothing pass.
	if err := r.Store.Modes().Set(t.Context(), "CAUTIOUS", store.Change{Actor: "someone else"}); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the mode is seen", func() bool { return r.Operation.Now() == "CAUTIOUS" })
	if got := tried(t.Context(), c, "a__pid", "{}"); got != "governance" {
		t.Errorf("in a mode that is not known: %s", got)
	}
}

// What the modes between ask.
func TestModes(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, governing(map[string]any{
		"a__pid":  map[string]any{"class": "read_only", "risk": "low", "high_cost": true},
		"a__echo": map[string]any{"class": "write", "risk": "high"},
		"a__fail": map[string]any{"class": "write", "forbidden_in_modes": []string{"ALERT"}, "requires_approval_in_modes": []string{"NORMAL"}},
	}))
	r := h.newRunning(t)
	c := r.client(t)
	for _, tt := range []struct {
		mode string
		want map[string]string
	}{
		{"NORMAL", map[string]string{"a__pid": "ok", "a__echo": "ok", "a__fail": "approval_pending", "a__picture": "ok"}},
		{"ALERT", map[string]string{"a__pid": "ok", "a__echo": "approval_pending", "a__fail": "governance", "a__picture": "approval_pending"}},
		{"RECOVERY", map[string]string{"a__pid": "ok", "a__echo": "approval_pending", "a__picture": "approval_pending"}},
		{"DEGRADED", map[string]string{"a__pid": "governance", "a__echo": "ok", "a__picture": "ok"}},
		{"NORMAL", map[string]string{"a__pid": "ok"}},
	} {
		if _, err := r.SetMode(t.Context(), tt.mode, "test"); err != nil {
			t.Fatal(err)
		}
		for tool, want := range tt.want {
			if got := tried(t.Context(), c, tool, "{}"); got != want {
				t.Errorf("%s, %s: %s, want %s", tt.mode, tool, got, want)
			}
		}
	}
}

// Arguments that are paths: what is allowed, what is forbidden, and the
// gateway's own files, under every name that they have.
func TestGovernedPaths(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if err := os.Symlink(h.file, h.path("link.yaml")); err != nil {
		t.Fatal(err)
	}
	h.write(t, servers{"a": fake()}, governing(map[string]any{
		"a__echo": map[string]any{"allowed_paths": []string{"work/**", "$HOME/notes/*"}, "forbidden_paths": []string{".env", "./work/secret"}},
		"a__fail": map[string]any{"paths_in": []string{"/x"}, "allowed_paths": []string{}},
	}))
	r := h.newRunning(t)
	c := r.client(t)
	for _, tt := range []struct{ tool, arguments, want string }{
		{"a__echo", `{"path":"` + h.path("work/a/b.txt") + `"}`, "ok"},
		{"a__echo", `{"path":"` + h.path("work/secret/b.txt") + `"}`, "governance"},
		{"a__echo", `{"path":"` + h.path("work/a/.env") + `"}`, "governance"},
		{"a__echo", `{"path":"` + h.path("work/../toolgate.yaml") + `"}`, "governance"},
		{"a__echo", `{"path":"/etc/passwd"}`, "governance"},
		{"a__echo", `{"note":"/etc/passwd"}`, "ok"},
		{"a__fail", `{"x":"anything"}`, "governance"},
		{"a__fail", `{"y":"anything"}`, "ok"},
		{"a__picture", `{"file":"` + h.file + `"}`, "governance"},
		{"a__picture", `{"file":"file://` + h.file + `"}`, "governance"},
		{"a__picture", `{"file":"` + h.path("state/admin.token") + `"}`, "governance"},
		{"a__picture", `{"file":"` + h.path("state/store.db-wal") + `"}`, "governance"},
		{"a__picture", `{"file":"` + h.path("other.yaml") + `"}`, "ok"},
	} {
		if got := tried(t.Context(), c, tt.tool, tt.arguments); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.tool, tt.arguments, got, tt.want)
		}
	}
	if got := build.OwnFiles(r.Current(), r.State); !slices.Contains(got, h.file) || !slices.Contains(got, r.State.Path) {
		t.Errorf("own files %q", got)
	}
}

// The gateway's own files are out of reach without anything that decides, too, unless
// it is said otherwise.
func TestOwnFilesWithoutAGate(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"": "governance", "forbid": "governance", "allow": "ok"} {
		h := newHome(t)
		section := map[string]any{}
		if word != "" {
			section["governance"] = map[string]any{"own_files": word}
		}
		h.write(t, servers{"a": fake()}, section)
		r := h.newRunning(t)
		c := r.client(t)
		for args, want := range map[string]string{
			`{"path":"` + h.file + `"}`: want, `{"path":"` + h.path("notes.txt") + `"}`: "ok", `{"text":"` + h.file + `"}`: "ok",
		} {
			if got := tried(t.Context(), c, "a__echo", args); got != want {
				t.Errorf("%q: %s: %s, want %s", word, args, got, want)
			}
		}
	}
}

// A server that lists a twin of a tool, whose name differs by case alone, gives
// both other names. The rules that were written for the tool stay with it.
func TestRulesSurviveCaseTwins(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("name=ECHO")}, governing(map[string]any{
		"a__echo": map[string]any{"forbidden_paths": []string{"/etc/**"}}, "a__ECHO": map[string]any{"max_bytes": 3}, "a__echo_*": readOnly,
	}))
	r := h.newRunning(t)
	c := r.client(t)
	list, err := names(t, c)
	if err != nil || slices.Contains(list, "a__echo") {
		t.Fatalf("%q, %v", list, err)
	}
	for _, name := range list {
		switch {
		case strings.HasPrefix(name, "a__echo_"):
			if got := tried(t.Context(), c, name, `{"path":"/etc/passwd"}`); got != "governance" {
				t.Errorf("%s: %s", name, got)
			}
			if got := tried(t.Context(), c, name, `{"path":"/srv/x"}`); got != "ok" {
				t.Errorf("%s: %s", name, got)
			}
		case strings.HasPrefix(name, "a__ECHO_"):
			if got := tried(t.Context(), c, name, `{"x":1}`); got != "governance" {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
	if _, err := r.SetMode(t.Context(), "LOCKDOWN", "a test"); err != nil {
		t.Fatal(err)
	}
	inLockdown := func(want func(name string) string) {
		t.Helper()
		for _, name := range list {
			if got := tried(t.Context(), c, name, `{}`); got != want(name) {
				t.Errorf("in LOCKDOWN %s: %s, want %s", name, got, want(name))
			}
		}
	}
	// A glob that covers the tool only under its changed name makes it no
	// milder: its server has changed the name. The name itself does.
	inLockdown(func(string) string { return "governance" })
	own := list[slices.IndexFunc(list, func(name string) bool { return strings.HasPrefix(name, "a__echo_") })]
	h.write(t, servers{"a": fake("name=ECHO")}, governing(map[string]any{own: readOnly}))
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	inLockdown(func(name string) string {
		if name == own {
			return "ok"
		}
		return "governance"
	})
}

// A reload takes over rules, and keeps the prepared schemas.
func TestReloadOfRules(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, governing(map[string]any{"a__echo": readOnly}))
	r := h.newRunning(t)
	c := r.client(t)
	if got := tried(t.Context(), c, "a__echo", "{}"); got != "ok" {
		t.Fatal(got)
	}
	before := r.Operation.Examiner.Load()
	h.write(t, servers{"a": fake()}, governing(map[string]any{"a__echo": map[string]any{"max_bytes": 3}}))
	if _, err := r.TakeFile(false); err != nil {
		t.Fatal(err)
	}
	if got := tried(t.Context(), c, "a__echo", `{"long":1}`); got != "ok" {
		t.Errorf("a rule that nobody has put in force: %s", got)
	}
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := tried(t.Context(), c, "a__echo", `{"long":1}`); got != "governance" {
		t.Errorf("after the reload: %s", got)
	}
	if after := r.Operation.Examiner.Load(); after == before || after.Checker != before.Checker {
		t.Error("the schemas are prepared anew")
	}
	if kinds := r.Gateway.Capabilities(); len(kinds) == 0 || kinds[0].Kind != mcp.Tool {
		t.Errorf("capabilities %+v", kinds)
	}
}

// LOCKDOWN cancels tasks that run at a server, though no call of theirs is under
// way.
func TestLockdownCancelsTasks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("tasks=" + h.path("cancelled"))}, nil)
	r := h.newRunning(t)
	session := r.post(t, "", "/mcp", legacyInitialize)
	made := r.post(t, "", "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__job","task":{}}}`, mcp.HeaderSession, session.header.Get(mcp.HeaderSession))
	if !strings.Contains(made.body, `"taskId"`) {
		t.Fatalf("made %+v", made)
	}
	if _, err := r.SetMode(t.Context(), "LOCKDOWN", "a test"); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the task is cancelled at its server", func() bool { _, err := os.Stat(h.path("cancelled")); return err == nil })
}

// governing is a toolgate section with rules.
func governing(tools map[string]any, more ...string) map[string]any {
	section := map[string]any{"tools": tools}
	for i := 0; i+1 < len(more); i += 2 {
		section[more[i]] = more[i+1]
	}
	return map[string]any{"governance": section, "approvals": map[string]any{"wait": "1s"}}
}

var readOnly = map[string]any{"class": "read_only", "risk": "low"}
