//go:build !windows

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/native"
)

// pythonHere is the interpreter of this machine.
func pythonHere(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("python3", "-I", "-S", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// A plugin is granted nothing of the gateway's own, nor what something is started
// from, its own script included; with the mode off nothing is granted at all.
func TestNativePluginGrants(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	script := h.path("plugin/tool.py")
	if err := os.MkdirAll(filepath.Dir(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, []byte("pass\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	goHere, err := exec.LookPath("go") // some program that is in PATH wherever the tests run
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key, path, want string
	}{
		"the configuration": {"read", h.dir, "the gateway's own"},
		"what holds it":     {"write", h.dir, "the gateway's own"},
		"its own script":    {"write", h.path("plugin"), "is started"},
		"its own modules":   {"read", h.path("plugin"), ""},
		"a program's place": {"write", filepath.Dir(goHere), "is started"},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := map[string]any{"path": pythonHere(t), "sha256": strings.Repeat("ab", 32), "args": []string{script}, c.key: []string{c.path}}
			for _, mode := range []string{"auto", "off"} {
				plugin["sandbox"] = mode
				h.write(t, servers{}, withNative(map[string]any{"plugins": map[string]any{"x": plugin}}, nil))
				read, err := config.Load(h.file, config.Options{LookupEnv: os.LookupEnv})
				if err != nil {
					t.Fatal(err)
				}
				state, err := statedir.Find(read.Path)
				if err != nil {
					t.Fatal(err)
				}
				x := read.Toolgate.Native.Plugins["x"]
				spec, err := build.PluginSpec(native.Spec{Key: "x"}, &x, read, build.KeepOff(read, build.OwnFiles(read, state)))
				want := c.want
				if mode == "off" {
					want = ""
				}
				if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("%s: %v; want %s", mode, err, want)
				}
				if mode == "auto" && err == nil && (len(spec.Policy.Run) == 0 || !spec.Policy.Temp) {
					t.Errorf("%+v", spec.Policy)
				}
			}
		})
	}
}
