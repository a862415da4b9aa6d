//go:build e2e

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	const vetted = "package a\n\nimport \"fmt\"\n\nfunc say() { fmt.Printf(\"%d\", \"x\") }\n"
	for name, c := range map[string]struct {
		file, text, windows string
	}{
		"a type":      {"a_windows.go", "package a\n\nvar a int = \"x\"\n", "cannot use \"x\""},
		"a test":      {"a_windows_test.go", "package a\n\nvar a = b\n", "undefined: b"},
		"what vet is": {"a_windows.go", vetted, "wrong type string (printf)"},
		"no mistake":  {"a_windows.go", "package a\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for path, text := range map[string]string{"go.mod": "module a\n\ngo 1.26\n", "a.go": "package a\n", c.file: c.text} {
				if err := os.WriteFile(filepath.Join(folder, path), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if wrong, err := check(t.Context(), folder, "linux/amd64"); err != nil || len(wrong) != 0 {
				t.Errorf("on Linux: %q, %v", wrong, err)
			}
			wrong, err := check(t.Context(), folder, "windows/amd64")
			if err != nil || len(wrong) > 1 || !strings.Contains(strings.Join(wrong, "\n"), c.windows) || (c.windows == "") != (len(wrong) == 0) {
				t.Errorf("on Windows: %q, %v", wrong, err)
			}
		})
	}
	if _, err := check(t.Context(), ".", "windows"); err == nil {
		t.Error("a system without a processor is taken")
	}
}
