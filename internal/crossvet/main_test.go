package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Mistakes in code that is built only for another system are found, each with its own word,
// and what vet finds where nothing else is wrong.
func TestCheck(t *testing.T) {
	const vetted = "package a\n\nimport \"fmt\"\n\nfunc say() { fmt.Printf(\"%d\", \"x\") }\n"
	for name, c := range map[string]struct {
		files   map[string]string
		windows []string
	}{
		"types": {
			map[string]string{
				"typed/a.go": "package a\n", "typed/a_windows.go": "package a\n\nvar a int = \"x\"\n",
				"tested/a.go": "package a\n", "tested/a_windows_test.go": "package a\n\nvar a = b\n",
			},
			[]string{"cannot use \"x\"", "undefined: b"},
		},
		"what vet is": {
			map[string]string{
				"a.go": "package a\n", "a_windows.go": vetted,
				"right/a.go": "package a\n", "right/a_windows.go": "package a\n",
			},
			[]string{"wrong type string (printf)"},
		},
		"no mistake": {map[string]string{"a.go": "package a\n", "a_windows.go": "package a\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			c.files["go.mod"] = "module a\n\ngo 1.26\n"
			for path, text := range c.files {
				path = filepath.Join(folder, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if wrong, err := check(t.Context(), folder, "linux/amd64"); err != nil || len(wrong) != 0 {
				t.Errorf("on Linux: %q, %v", wrong, err)
			}
			wrong, err := check(t.Context(), folder, "windows/amd64")
			all := strings.Join(wrong, "\n")
			if err != nil || len(wrong) != len(c.windows) {
				t.Errorf("on Windows: %q, %v", wrong, err)
			}
			for _, want := range c.windows {
				if !strings.Contains(all, want) {
					t.Errorf("on Windows: %q lacks %q", wrong, want)
				}
			}
		})
	}
	if _, err := check(t.Context(), ".", "windows"); err == nil {
		t.Error("a system without a processor is taken")
	}
}
