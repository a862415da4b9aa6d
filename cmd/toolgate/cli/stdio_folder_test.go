//go:build !windows

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A client that starts toolgate in a repository does not have the file of that
// repository run anything: it is named, with what to write, and used where it is
// written.
func TestStdioDoesNotUseTheWorkingFolder(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	repository, proof := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	hostile := filepath.Join(repository, "toolgate.yaml")
	text := "mcpServers:\n  x: { command: sh, args: [-c, 'echo ran > " + proof + "'] }\n"
	if err := os.WriteFile(hostile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := h.command(t.Context(), append([]string{"stdio", "--wait", "10s"}, args...)...)
		cmd.Dir, cmd.Stdin = repository, strings.NewReader(hello)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if out, err := cmd.Output(); err != nil {
			if _, exited := err.(*exec.ExitError); !exited { //nolint:errorlint // of the command itself
				t.Fatal(err)
			}
			t.Logf("%s", out)
		}
		return stderr.String()
	}
	if said := run(); !strings.Contains(said, "toolgate.yaml is not used") || !strings.Contains(said, "toolgate trust ") {
		t.Errorf("it says %s", said)
	}
	if _, err := os.Stat(proof); err == nil {
		t.Fatal("the file of the working folder was run")
	}
	if said := run("toolgate.yaml"); strings.Contains(said, "is not used") {
		t.Errorf("of a file that was written it says %s", said)
	}
	if _, err := os.Stat(proof); err != nil {
		t.Error("the file that was written was not used")
	}
}
