//go:build !windows

package child

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A whole command line in the place of a command is taken apart for whoever wrote it. A
// program whose name has a space is found, and what is none is only not found.
func TestLookForALine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"npx", "my server"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + dir}
	for command, want := range map[string]string{
		`npx -y "a b"`:                   `write "command": "npx", "args": ["-y", "\"a", "b\""]`,
		filepath.Join(dir, "npx") + " x": `"args": ["x"]`,
		"nothing like that":              "is not in its PATH",
		"./npx -y":                       `write "command": "./npx", "args": ["-y"]`,
		"/no/such program":               "there is no ",
	} {
		_, err := Look(command, dir, env)
		if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", command, err, want)
		}
	}
	if found, err := Look("my server", "", env); err != nil || filepath.Base(found) != "my server" {
		t.Errorf("a program with a space in its name: %q, %v", found, err)
	}
}
