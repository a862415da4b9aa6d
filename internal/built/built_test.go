//go:build e2e

package built

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgram builds a program, changes its source and builds it again, until the
// source is what it was.
func TestProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "go.mod", "module example.test/said\n\ngo 1.26\n")
	write(t, "tagged.go", "//go:build tagged\n\npackage main\n\nfunc init() { word += \", tagged\" }\n")
	for _, word := range []string{"first", "second", "first"} {
		write(t, "main.go", "package main\n\nimport \"os\"\n\nvar word = \""+word+"\"\n\nfunc main() { os.Stdout.WriteString(word) }\n")
		for want, flags := range map[string][]string{word: nil, word + ", tagged": {"-tags", "tagged"}} {
			to := filepath.Join(t.TempDir(), "said")
			if err := Program(t.Context(), to, ".", flags...); err != nil {
				t.Fatal(err)
			}
			if got, err := exec.CommandContext(t.Context(), to).Output(); err != nil || string(got) != want {
				t.Errorf("it says %q, %v; want %q", got, err, want)
			}
		}
	}
}

func TestProgramRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "go.mod", "module example.test/said\n\ngo 1.26\n")
	write(t, "main.go", "package main\n\nfunc main() { nonsense() }\n")
	to := filepath.Join(t.TempDir(), "said")
	if err := Program(t.Context(), to, "."); err == nil || !strings.Contains(err.Error(), "undefined: nonsense") {
		t.Errorf("what does not compile: %v", err)
	}
	if _, err := os.Stat(to); !os.IsNotExist(err) {
		t.Errorf("a program is there: %v", err)
	}
	write(t, "main.go", "package main\n\nfunc main() {}\n")
	if err := Program(t.Context(), filepath.Join(t.TempDir(), "missing", "said"), "."); err == nil {
		t.Error("a program was put into a folder that is not there")
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
