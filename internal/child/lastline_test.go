package child

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLastWords reads outputs of real programs. The first line of each file is what is
// shown of the rest.
func TestLastWords(t *testing.T) {
	files, err := filepath.Glob("testdata/lastwords/*.txt")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, output, _ := strings.Cut(string(text), "\n")
		want := strings.TrimSpace(strings.TrimPrefix(first, "want:"))
		if got := LastWords(strings.Split(output, "\n")); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}
