//go:build !windows

package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
)

// A script in the place of Python is run once for every configuration that is
// applied, however many tools and groups are held against what things are started
// from; a reload runs it again, as it may stand for another one since.
func TestPythonIsAskedOnce(t *testing.T) {
	t.Parallel()
	h, shims := newHome(t), t.TempDir()
	shim, runs := filepath.Join(shims, "python3"), filepath.Join(shims, "runs")
	body := "#!/bin/sh\necho run >> " + runs + "\nexec " + pythonHere(t) + ` "$@"` + "\n"
	if err := os.WriteFile(shim, []byte(body), 0o700); err != nil {
		t.Fatal(err)
	}
	asked := func() int {
		t.Helper()
		text, err := os.ReadFile(runs)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "run\n")
	}
	tool := func(name string) map[string]any {
		return map[string]any{"name": name, "type": "command", "sandbox": "auto", "args": []string{"echo", name}, "write": []string{t.TempDir()}}
	}
	all := withNative(map[string]any{
		"util": map[string]any{}, "code": map[string]any{"sandbox": "auto", "python": shim}, "fs": map[string]any{"roots": []string{t.TempDir()}},
	}, nil)
	all["tools"] = []any{tool("one"), tool("two")}
	h.write(t, servers{}, all)
	r := h.newRunning(t)
	if n := asked(); n != 1 {
		t.Errorf("it was run %d times for the configuration of the start", n)
	}
	if got := text(t, r.client(t), "code__execute", `{"code":"print(6*7)"}`); !strings.Contains(got, "42") {
		t.Error(got)
	}
	before := asked()
	all["tools"] = []any{tool("one"), tool("two"), tool("three")}
	h.write(t, servers{}, all)
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if n := asked() - before; n != 1 {
		t.Errorf("it was run %d times for a reload", n)
	}

	// Tools of the store are held against it before they are kept, and when they are
	// served beside those of the file.
	before = asked()
	folder := t.TempDir()
	data := `{"tools":[{"name":"four","type":"command","args":["echo","4"],"write":["` + folder + `"]},{"name":"five","type":"command","args":["echo","5"],"write":["` + folder + `"]}]}`
	if _, err := r.DeclareTools(t.Context(), admin.Declaration{File: "t", Data: []byte(data)}); err != nil {
		t.Fatal(err)
	}
	if n := asked() - before; n != 2 {
		t.Errorf("it was run %d times for two tools of the store", n)
	}
	if got := text(t, r.client(t), "tools__five", `{}`); got != "5\n" {
		t.Errorf("%q", got)
	}
}
