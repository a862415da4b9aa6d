//go:build !windows

package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/fakeserver"
	"github.com/toolgate/toolgate/internal/sandbox"
)

// An agent with files over the folder that holds the configuration, the policy, the
// store and the file of a server changes nothing of what toolgate runs or allows.
func TestNativeFilesKeepOff(t *testing.T) {
	t.Parallel()
	h, r := guarded(t)
	for name, state := range states(r) {
		if state != "ready" {
			t.Fatalf("%s is %s: %+v", name, state, r.Servers())
		}
	}
	c := r.client(t)
	fixed := []string{"toolgate.yaml", "policies/p.rego", "srv/run.sh", "srv/helper.sh", "server.env", "notes/twin"}
	before := make(map[string]string)
	for _, name := range fixed {
		before[name] = h.text(t, h.path(name))
	}
	attempt := func(tool, path, more string) string {
		t.Helper()
		return text(t, c, tool, fmt.Sprintf(`{"path":%q%s}`, path, more))
	}
	own := []string{
		"toolgate.yaml", "policies/p.rego", "policies/new.rego", "policies/deep/new.rego", "store.db", "store.db-wal", "store.db-shm", "store.db-journal",
		"audit.jsonl", "state/new", "state/control.sock", "server.env", "notes/to-config", "notes/twin", "notes/to-policies/p.rego", "notes/to-policies/new.rego",
		"TOOLGATE.yaml", "Policies/p.rego", "policies/../toolgate.yaml", "./toolgate.yaml", "notes/to-policies/../toolgate.yaml", "toolgate.yaml/", "toolgate\u200b.yaml",
	}
	fromWhich := []string{"srv/run.sh", "srv/helper.sh", "srv/new.sh", "srv/sub/new.sh", "notes/to-server/run.sh", "notes/to-server/new.sh", "SRV/run.sh"}
	for _, name := range append(own, fromWhich...) {
		path := h.dir + "/" + name
		for _, more := range []string{`,"content":"pwned"`, `,"content":"pwned","create_only":true`, `,"content":"pwned","create_folders":true`} {
			if got := attempt("fs__write_file", path, more); strings.Contains(got, `"replaced"`) {
				t.Errorf("%s was written: %s", name, got)
			}
		}
		if got := attempt("fs__delete_file", path, ""); strings.Contains(got, `"deleted"`) {
			t.Errorf("%s was deleted: %s", name, got)
		}
	}
	for _, name := range own {
		for _, tool := range []string{"fs__read_file", "system__read_logs"} {
			got := attempt(tool, h.dir+"/"+name, "")
			if strings.Contains(got, "mcpServers") || strings.Contains(got, "package toolgate") || strings.Contains(got, "SQLite") || strings.Contains(got, "A=1") {
				t.Errorf("%s gave %s: %.100s", tool, name, got)
			}
		}
	}
	for _, name := range fixed {
		if now := h.text(t, h.path(name)); now != before[name] {
			t.Errorf("%s holds %.100q", name, now)
		}
	}
	for _, name := range []string{"policies/new.rego", "policies/deep", "srv/new.sh", "srv/sub", "TOOLGATE.yaml", "SRV", "Policies"} {
		if _, err := os.Lstat(h.path(name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	if got, err := r.Reload(); err != nil || len(got.Applied) > 0 || len(got.Pending) > 0 {
		t.Errorf("there is something to reload: %+v, %v", got, err)
	}

	// What is nobody's but the agent's is as free as it is configured.
	if got := attempt("fs__write_file", h.path("free.txt"), `,"content":"now"`); !strings.Contains(got, `"replaced":true`) {
		t.Error(got)
	}
	if got := attempt("fs__read_file", h.path("free.txt"), ""); got != "now" {
		t.Error(got)
	}
	if got := attempt("fs__read_file", h.path("srv/run.sh"), ""); !strings.HasPrefix(got, "exec") {
		t.Error(got)
	}
}

// What code runs gets at none of it either, where the machine can confine it.
func TestNativeCodeKeepsOff(t *testing.T) {
	t.Parallel()
	h, r := guarded(t)
	c := r.client(t)
	layers, err := sandbox.Available(sandbox.Policy{Mode: sandbox.Auto})
	if err != nil {
		t.Fatal(err)
	}
	before := h.text(t, h.file)
	for _, program := range []string{
		"print(open(%q).read())", "open(%q, 'a').write('pwned')", "import os\nos.rename(%q, '/tmp/gone')", "import os\nos.chmod(%q, 0o777)\nprint('set')",
	} {
		got := text(t, c, "code__execute", fmt.Sprintf(`{"code":%q}`, fmt.Sprintf(program, h.file)))
		if layers.Has(sandbox.Files) && (strings.Contains(got, "mcpServers") || strings.Contains(got, "set\\n")) || !strings.Contains(got, "exit_code") {
			t.Errorf("%s: %s", program, got)
		}
	}
	if layers.Has(sandbox.Files) && h.text(t, h.file) != before {
		t.Error("the configuration is another one")
	}

	// A folder that holds it is none for programs to run in.
	h2 := newHome(t)
	h2.write(t, servers{}, withNative(map[string]any{"code": map[string]any{"sandbox": "auto", "roots": []string{h2.dir}}, "util": map[string]any{}}, nil))
	r2 := h2.newRunning(t)
	for _, s := range r2.Servers() {
		if ready := s.State == "ready"; ready != (s.Name == "util") {
			t.Errorf("%s is %s (%s)", s.Name, s.State, s.Reason)
		}
		if s.Name == "code" && !strings.Contains(s.Reason, "the gateway's own") {
			t.Errorf("code: %s", s.Reason)
		}
	}
}

// guarded is a gateway whose tools for files, and for code, have the very folder
// that it is configured from.
func guarded(t *testing.T) (*home, *running) {
	t.Helper()
	h := newHome(t)
	real, err := filepath.EvalSymlinks(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	h.dir, h.file = real, filepath.Join(real, "toolgate.yaml")
	for name, body := range map[string]string{
		"policies/p.rego": openPolicy,
		"srv/run.sh":      fmt.Sprintf("exec %q %q one\n", os.Args[0], fakeserver.Command),
		"srv/helper.sh":   "",
		"server.env":      "A=1\n",
		"notes/a.txt":     "a note",
		"free.txt":        "free",
	} {
		if err := os.MkdirAll(filepath.Dir(h.path(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(h.path(name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.write(t, servers{"srv": {"command": "sh", "args": []string{h.path("srv/run.sh")}, "envFile": h.path("server.env")}}, map[string]any{
		"opa":   map[string]any{"path": h.path("policies")},
		"store": "sqlite:" + h.path("store.db"),
		"audit": map[string]any{"path": h.path("audit.jsonl")},
		"native": map[string]any{
			"fs":     map[string]any{"roots": []string{h.dir}, "write": []string{h.dir}, "hard_links": true},
			"system": map[string]any{"logs": []string{h.dir}},
			"code":   map[string]any{"sandbox": "auto", "roots": []string{h.path("notes")}, "write": []string{h.path("notes")}},
		},
	})
	for name, target := range map[string]string{"notes/to-config": h.file, "notes/to-policies": h.path("policies"), "notes/to-server": "../srv"} {
		if err := os.Symlink(target, h.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(h.file, h.path("notes/twin")); err != nil {
		t.Fatal(err)
	}
	return h, h.newRunning(t)
}
