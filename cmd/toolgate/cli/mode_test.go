//go:build !windows

package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/native"
)

// governing is a toolgate section with rules.
func governing(tools map[string]any, more ...string) map[string]any {
	section := map[string]any{"tools": tools}
	for i := 0; i+1 < len(more); i += 2 {
		section[more[i]] = more[i+1]
	}
	return map[string]any{"governance": section, "approvals": map[string]any{"wait": "1s"}}
}

var readOnly = map[string]any{"class": "read_only", "risk": "low"}

// The command, with a gateway and without.
func TestModeCommand(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, nil)
	if got := h.ok(t, "mode", "--file", h.file, "-o", "name"); got != "NORMAL\n" {
		t.Errorf("at first: %q", got)
	}
	h.ok(t, "mode", "ALERT", "--reason", "before it starts", "--file", h.file)
	if got := h.ok(t, "mode", "--file", h.file, "-o", "name"); got != "ALERT\n" {
		t.Errorf("kept: %q", got)
	}
	h.up(t)
	if got := h.ok(t, "mode", "--file", h.file); !strings.Contains(got, "ALERT") || !strings.Contains(got, "before it starts") {
		t.Errorf("of the running one: %q", got)
	}
	if got := h.ok(t, "mode", "LOCKDOWN", "--reason", "now", "--file", h.file, "-o", "name"); got != "LOCKDOWN\n" {
		t.Errorf("set: %q", got)
	}
	if got := h.ok(t, "ls", h.file); !strings.Contains(got, "mode LOCKDOWN since ") || !strings.Contains(got, ": now\n") {
		t.Errorf("ls: %s", got)
	}
	for _, args := range [][]string{{"mode", "LOCKDOWN"}, {"mode", "PANIC", "--reason", "x"}, {"mode", "--reason", "x"}} {
		if code := h.run(t, append(args, "--file", h.file)...).code; code != exitUsage {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}

// What decides or runs is out of reach wherever it lies, and an address is no
// path: it may hold a password.
func TestOwnFilesEverywhere(t *testing.T) {
	t.Parallel()
	c := &config.Config{Path: "/c/toolgate.yaml"}
	c.Toolgate.Store, c.Toolgate.Registry.Seed, c.Toolgate.Listen.TLS.ClientCA = "sqlite:/d/x.db", "/s/seed.yaml", "/t/clients.pem"
	c.Toolgate.Native.Plugins = map[string]native.PluginSettings{"p": {Path: "/p/plugin"}}
	own := build.OwnFiles(c, &statedir.Dir{Path: "/state", Socket: "/state/socket"})
	for _, path := range []string{
		"/c/toolgate.yaml", "/d/x.db", "/d/x.db-wal", "/d/x.db-shm", "/d/x.db-journal", "/s/seed.yaml", "/t/clients.pem", "/p/plugin", "/state",
	} {
		if !slices.Contains(own, path) {
			t.Errorf("%s is not among %q", path, own)
		}
	}
	c.Toolgate.Store = "postgres://u:hunter2${x@db/toolgate"
	own = build.OwnFiles(c, &statedir.Dir{Path: "/state", Socket: "/state/socket"})
	if strings.Contains(strings.Join(own, " "), "hunter2") {
		t.Errorf("own files %q", own)
	}
	if _, err := governance.New([]governance.Rule{build.OwnFilesRule(own)}, governance.Options{}); err != nil {
		t.Error(err)
	}
}

// A rule that is about nothing is an alarm at run time and an error of validate,
// with its line.
func TestDanglingRules(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, governing(map[string]any{
		"a__ech":  readOnly,
		"a__fail": map[string]any{"paths_in": []string{"/pth"}, "forbidden_paths": []string{"/etc"}},
		"a__pid":  readOnly,
	}))
	h.ok(t, "validate", h.file) // nothing is known of the tools
	h.up(t)
	h.ok(t, "ls", h.file, "--wait", "30s")
	testwait.Until(t, patience, "the alarm is shown", func() bool { return strings.Contains(h.ok(t, "ls", h.file), "did you mean") })
	out := h.ok(t, "ls", h.file)
	for _, want := range []string{h.file + ":1: governance.tools.a__ech: ", `did you mean "a__echo"`, "governance.tools.a__fail.paths_in"} {
		if !strings.Contains(out, want) {
			t.Errorf("ls lacks %q: %s", want, out)
		}
	}
	if strings.Contains(out, "a__pid") {
		t.Errorf("a good rule is shown: %s", out)
	}
	if code := h.run(t, "validate", h.file).code; code != exitConfig {
		t.Errorf("validate: exit code %d", code)
	}
}

// A misspelt scope rule protects nothing, and a misspelt capsule shows nothing:
// both are said. What a glob of URIs is about may be in no list.
func TestDanglingScopesAndCapsules(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	section := withKeys("k")
	section["auth"].(map[string]any)["scopes"] = map[string]any{"required": []any{
		map[string]any{"match": "a__ech", "scopes": "admin"}, map[string]any{"match": "a__echo", "scopes": "admin"}, map[string]any{"match": "a+db://*", "scopes": "admin"},
	}}
	section["capsules"] = map[string]any{"c": map[string]any{"visible": []string{"a__p?d", "b__*"}, "groups": []string{"g"}}}
	h.write(t, servers{"a": fake()}, section)
	// Nothing is known of the tools, but that b is no namespace.
	if o := h.run(t, "validate", h.file); o.code != exitConfig || !strings.Contains(o.stderr, `"b__*"`) || strings.Contains(o.stderr, "a__") {
		t.Errorf("validate: exit code %d: %s", o.code, o.stderr)
	}
	h.up(t)
	h.ok(t, "ls", h.file, "--wait", "30s")
	testwait.Until(t, patience, "the alarm is shown", func() bool { return strings.Contains(h.ok(t, "ls", h.file), "a__ech") })
	out := h.ok(t, "ls", h.file)
	for text, want := range map[string]bool{
		h.file + `:1: auth.scopes.required: "a__ech" matches nothing that there is; did you mean "a__echo"?`: true, `: capsules: "b__*" matches nothing`: true,
		`"a__echo" matches`: false, "db:": false, "a__p?d": false,
	} {
		if strings.Contains(out, text) != want {
			t.Errorf("ls has %q: %t: %s", text, !want, out)
		}
	}
	if code := h.run(t, "validate", h.file).code; code != exitConfig {
		t.Errorf("validate: exit code %d", code)
	}
}
