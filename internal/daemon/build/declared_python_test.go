//go:build !windows

package build

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/native/declared"
)

// A declared command whose Python is the script of a version manager runs the interpreter
// that the script finds; a script that the file names by its path is run as it is.
func TestDeclaredPythonOfAVersionManager(t *testing.T) {
	real, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		t.Skipf("there is no Python: %v", err)
	}
	shims := t.TempDir()
	shim := filepath.Join(shims, "python3")
	if err := os.WriteFile(shim, []byte("#!/bin/sh\nexec "+real+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", shims)
	for name, script := range map[string]bool{"python3": false, shim: true} {
		command, err := DeclaredCommand(&config.Config{}, &declared.Settings{Type: "command", Args: []string{name, "-c", "print(1)"}}, &KeptOff{})
		if err != nil {
			t.Fatal(err)
		}
		if got := command.Args[0]; isScript(got) != script {
			t.Errorf("%s runs %s", name, got)
		}
	}
}
