package sandbox

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestInterpreter(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // its scripts have no first line
	}
	long := "#!/" + strings.Repeat("a", longestLine)
	for text, want := range map[string][]string{
		"#!/bin/sh\necho":                 {"/bin/sh"},
		"#! /usr/bin/env node\n":          {"/usr/bin/env", "node"},
		"#!/usr/bin/env -S node --flag\n": {"/usr/bin/env", "-S node --flag"},
		"#!sh\n":                          nil,
		"#!/bin/../bin/sh\n":              nil,
		"#!/bin/sh":                       nil, // without an end
		long:                              nil,
		"\x7fELF":                         nil,
		"":                                nil,
	} {
		path := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		if got := interpreter(path); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := interpreter(t.TempDir()); got != nil {
		t.Errorf("a folder has the interpreter %q", got)
	}
}
