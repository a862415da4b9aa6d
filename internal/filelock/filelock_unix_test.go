//go:build !windows

package filelock_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/filelock"
)

// A pipe that nobody reads or writes makes nobody wait.
func TestPipeInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := syscall.Mkfifo(path+filelock.Suffix, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := filelock.Take(path); err == nil {
		l.Close()
		t.Error("a pipe was taken")
	}
	if err := filelock.Free(path); err == nil {
		t.Error("a pipe is free")
	}
}

// In a folder that cannot be written there is no lock, and a lock file that is there
// and cannot be read is not taken for free.
func TestReadOnlyFolder(t *testing.T) {
	if os.Getuid() == 0 {
		asNobody(t)
		return
	}
	dir := t.TempDir()
	path, held := filepath.Join(dir, "a"), filepath.Join(dir, "held")
	l := take(t, held)
	closed := filepath.Join(dir, "closed")
	if err := os.WriteFile(closed+filelock.Suffix, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700) //nolint:errcheck // so that it can be removed
	if _, err := filelock.Take(path); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a lock file that cannot be made: %v", err)
	}
	if err := filelock.Free(path); err != nil {
		t.Errorf("none has it: %v", err)
	}
	if err := filelock.Free(closed); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a lock file that cannot be read: %v", err)
	}
	requireHeld(t, held, os.Getpid())
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	requireFree(t, held) // its file is there, and can be written
}

// asNobody runs a test in a process whose user is not above all permissions.
func asNobody(t *testing.T) {
	t.Helper()
	const nobody = 65534
	dir, err := os.MkdirTemp("", "filelock") //nolint:usetesting // another user has to get there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	binary := filepath.Join(dir, "filelock.test")
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, b, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), binary, "-test.run", "^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), "TMPDIR="+dir)
	child.Dir = dir
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("as another user: %v\n%s", err, out)
	}
}
