//go:build !windows

package daemon_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/plugins/code"
)

// A script in the place of Python is asked once which interpreter it stands for;
// one that does not say is named to the caller, with the key to be set.
func TestNativePythonShim(t *testing.T) {
	t.Parallel()
	python := pythonHere(t)
	for name, c := range map[string]struct{ body, want string }{
		"stands for it": {"#!/bin/sh\nexec " + python + ` "$@"` + "\n", `"stdout":"42\n"`},
		"says nothing":  {"#!/bin/sh\nexit 1\n", ""},
		"says nonsense": {"#!/bin/sh\necho '[\"relative\", \"\", \"\"]'\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			shim := h.path("python3")
			if err := os.WriteFile(shim, []byte(c.body), 0o700); err != nil {
				t.Fatal(err)
			}
			got, library := build.RealPython(shim)
			if c.want == "" {
				if got != shim || library != nil {
					t.Errorf("it stands for %s %s", got, library)
				}
				return
			}
			if got != filepath.Clean(python) {
				t.Errorf("it stands for %s, not %s", got, python)
			}
			var named config.Config
			named.Toolgate.Native.Code = &code.Settings{Python: shim}
			fixed := build.KeepOff(&named, nil).Started()
			for _, path := range append(library, got, shim) {
				if !slices.Contains(fixed, path) {
					t.Errorf("tools may change %s, from which Python is started: %q", path, fixed)
				}
			}
			h.write(t, servers{}, withNative(map[string]any{"code": map[string]any{"sandbox": "auto", "python": shim}}, nil))
			client := h.newRunning(t).client(t)
			if got := text(t, client, "code__execute", `{"code":"print(6*7)"}`); !strings.Contains(got, c.want) {
				t.Error(got)
			}
		})
	}
	h := newHome(t)
	h.write(t, servers{}, withNative(map[string]any{"code": map[string]any{"sandbox": "auto", "python": h.path("none")}}, nil))
	client := h.newRunning(t).client(t)
	if got := text(t, client, "code__execute", `{"code":"print(6*7)"}`); !strings.Contains(got, "native.code.python") {
		t.Error(got)
	}
}

// Tools of a group that is queued run from the pool, and their server has tasks.
func TestNativeQueue(t *testing.T) {
	t.Parallel()
	for _, queued := range []bool{true, false} {
		t.Run(fmt.Sprint(queued), func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.write(t, servers{}, withNative(map[string]any{"code": map[string]any{"sandbox": "auto", "python": pythonHere(t), "queue": queued}}, nil))
			r := h.newRunning(t)
			client := r.client(t)
			if got := text(t, client, "code__execute", `{"code":"print(6*7)"}`); !strings.Contains(got, "42") {
				t.Error(got)
			}
			l := r.NativeListing("code")
			if has := mcp.Lookup(l.Capabilities, "extensions", mcp.ExtensionTasks) != nil; has != queued {
				t.Errorf("capabilities %s", l.Capabilities)
			}
			if said := r.NativeOperator("code", "execute"); said.HighCost != queued {
				t.Errorf("%+v", said)
			}
		})
	}
}

// pythonHere is the interpreter of this machine.
func pythonHere(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("python3", "-I", "-S", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
