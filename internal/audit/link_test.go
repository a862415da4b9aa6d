//go:build !windows

package audit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolgate/toolgate/internal/audit"
)

// If the path is a link, the file is rotated where it is, the link stays, and readers
// at the link find everything.
func TestLinkedFileIsPutAside(t *testing.T) {
	path, at := filepath.Join(t.TempDir(), "audit.jsonl"), filepath.Join(t.TempDir(), "kept.jsonl")
	if err := os.Symlink(at, path); err != nil {
		t.Fatal(err)
	}
	for run := range 2 {
		l, err := audit.Open(path, audit.Options{Fsync: audit.FsyncAlways, Key: audit.TestKey, RotateSize: 2048})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			add(t, l, fmt.Sprint(run, i))
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	if got := verify(t, path, nil); len(got.Findings) > 0 || got.Calls != 20 || got.Files < 3 {
		t.Errorf("%+v", got)
	}
}
