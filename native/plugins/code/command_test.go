package code_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/plugins/code"
)

// arguments is a Python program that prints what it was started with.
const arguments = "import json, os, sys; print(json.dumps([sys.argv[1:], os.getcwd(), sorted(k for k in os.environ if not k.startswith('LC_'))]))"

func TestCommands(t *testing.T) {
	dir := folder(t)
	work := filepath.Join(dir, "work")
	must(t, os.MkdirAll(filepath.Join(work, "--help"), 0o755))
	must(t, os.MkdirAll(filepath.Join(work, "out"), 0o755))
	must(t, os.WriteFile(filepath.Join(work, "-rf"), []byte("x"), 0o644))
	must(t, os.Symlink("/etc", filepath.Join(work, "away")))
	must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("canary"), 0o644))
	py := python(t)
	tools := open(t, code.Config{
		Roots: []string{work}, Write: []string{filepath.Join(work, "out")},
		Linters: map[string]code.Command{
			"args":  {Command: []string{py, "-I", "-c", arguments, "--", "{path}", "$HOME", "$(id)"}, Env: map[string]string{"EXTRA": "1", "HOME": "/"}},
			"fails": {Command: []string{py, "-c", "import sys; sys.exit('two problems')"}},
			"peeks": {Command: []string{py, "-c", "import sys; print(open(sys.argv[1] + '/../../secret').read())", "{path}"}},
		},
		Tests: map[string]code.Command{
			"writes": {Command: []string{py, "-c", "import os,sys\nopen(sys.argv[1] + '/../out/made', 'w').write('x')\nopen(sys.argv[1] + '/made', 'w').write('x')", "{path}"}},
			"builds": {Command: []string{"/bin/sh", "-c", `printf '#!/bin/sh\necho built' > "$TMPDIR/x" && chmod +x "$TMPDIR/x" && "$TMPDIR/x"`}},
		},
	})
	for path, cwd := range map[string]string{work: work, filepath.Join(work, "--help"): filepath.Join(work, "--help"), filepath.Join(work, "-rf"): work} {
		var out outcome
		must(t, call(t, tools["run_linter"], map[string]any{"name": "args", "path": path}, &out))
		var got []any
		must(t, json.Unmarshal([]byte(out.Stdout), &got))
		want := []any{[]any{"--", path, "$HOME", "$(id)"}, cwd, []any{"EXTRA", "HOME", "LANG", "PATH", "TMPDIR"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	var out outcome
	must(t, call(t, tools["run_linter"], map[string]any{"name": "fails", "path": work}, &out))
	if out.ExitCode != 1 || out.Stderr != "two problems\n" || out.failed {
		t.Errorf("%+v", out)
	}
	must(t, call(t, tools["run_tests"], map[string]any{"name": "builds", "path": work}, &out))
	if out.Stdout != "built\n" {
		t.Errorf("%+v", out)
	}
	layers, err := sandbox.Available(sandbox.Policy{Mode: sandbox.Auto})
	must(t, err)
	if layers.Has(sandbox.Files) {
		must(t, call(t, tools["run_linter"], map[string]any{"name": "peeks", "path": filepath.Join(work, "out")}, &out))
		if strings.Contains(out.Stdout, "canary") || out.ExitCode == 0 {
			t.Errorf("%+v", out)
		}
		must(t, call(t, tools["run_tests"], map[string]any{"name": "writes", "path": filepath.Join(work, "--help")}, &out))
		if _, err := os.Stat(filepath.Join(work, "out", "made")); err != nil || out.ExitCode == 0 {
			t.Errorf("%v, %+v", err, out)
		}
		if _, err := os.Stat(filepath.Join(work, "--help", "made")); err == nil {
			t.Error("a folder was changed that is not for writing")
		}
	}
	for _, tc := range []struct{ name, path, want string }{
		{"args; id", work, `There is no linter "args; id". Configured: args, fails, peeks.`},
		{"args", "--fix", "not absolute"},
		{"args", "-rf", "not absolute"},
		{"args", work + "/../secret", "not written plainly"},
		{"args", filepath.Join(dir, "secret"), "outside of what this tool reaches"},
		{"args", filepath.Join(work, "away"), "link"},
		{"args", filepath.Join(work, "none"), "There is no"},
		{"args", work + "\n--fix", "control characters"},
	} {
		problem(t, tc.name+" "+tc.path, call(t, tools["run_linter"], map[string]any{"name": tc.name, "path": tc.path}, nil), tc.want)
	}
	problem(t, "a linter as tests", call(t, tools["run_tests"], map[string]any{"name": "args", "path": work}, nil), "There is no set of tests")
	if runtime.GOOS == "linux" && !strings.Contains(tools["run_linter"].Description, "args, fails, peeks") {
		t.Error(tools["run_linter"].Description)
	}
}
