package envfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	got, err := parse([]byte("\xef\xbb\xbfA=1\r\n # c\n\nexport B = \"x\\n\\\"y\\q\" # d\nC='a\\nb'\nD=a # b\nE=a#b\nF=\nA=2\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"A": "2", "B": "x\n\"y\\q", "C": `a\nb`, "D": "a", "E": "a#b", "F": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"A", "=x", "A B=c", `A="x`, `A="x" y`, "A='"} {
		if _, err := parse([]byte("OK=1\n" + text)); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", text, err)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, maxSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "big"), filepath.Join(dir, "none"), os.DevNull} {
		if _, err := Read(path); err == nil {
			t.Errorf("%s was read", path)
		}
	}
}
