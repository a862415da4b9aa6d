package filelock_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/filelock"
)

// A child of the test process takes the lock of the file that heldAt names, says
// how that went, and keeps it until its input ends.
const heldAt = "TOOLGATE_FILELOCK_HELD"

func TestMain(m *testing.M) {
	if path := os.Getenv(heldAt); path != "" {
		_, err := filelock.Take(path)
		fmt.Println(err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until the kill, or the end of the test
		return
	}
	os.Exit(m.Run())
}

// holder starts a process that takes the lock of path, and returns what it says.
func holder(t *testing.T, path string) (*exec.Cmd, string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), heldAt+"="+path)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = child.Wait() // it may have been killed
	})
	said := make([]byte, 4096)
	n, err := out.Read(said)
	if err != nil {
		t.Fatal(err)
	}
	return child, strings.TrimSpace(string(said[:n]))
}

func take(t *testing.T, path string) *filelock.Lock {
	t.Helper()
	l, err := filelock.Take(path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// requireHeld sees to it that a lock is refused, and who is named.
func requireHeld(t *testing.T, path string, pid int) {
	t.Helper()
	_, err := filelock.Take(path)
	for what, err := range map[string]error{"Take": err, "Free": filelock.Free(path)} {
		held, ok := errors.AsType[*filelock.HeldError](err)
		if !ok || held.PID != pid || held.Path != path || !strings.Contains(err.Error(), path+" is in use by process "+strconv.Itoa(pid)) {
			t.Errorf("%s: error %v, want one that names process %d", what, err, pid)
		}
	}
}

func requireFree(t *testing.T, path string) {
	t.Helper()
	if err := filelock.Free(path); err != nil {
		t.Error(err)
	}
	if err := take(t, path).Close(); err != nil {
		t.Error(err)
	}
}

// Of two processes one has the lock, and names itself to the other, until it is
// closed or killed.
func TestOneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	own := take(t, path)
	requireHeld(t, path, os.Getpid()) // another Take in one process is refused, too
	if _, said := holder(t, path); said != (&filelock.HeldError{Path: path, PID: os.Getpid()}).Error() {
		t.Errorf("the child says %q", said)
	}
	if err := own.Close(); err != nil {
		t.Fatal(err)
	}
	requireFree(t, path)

	child, said := holder(t, path)
	if said != "<nil>" {
		t.Fatalf("the child says %q", said)
	}
	requireHeld(t, path, child.Process.Pid)
	requireHeld(t, path, child.Process.Pid) // who was refused has not taken its name away
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	requireFree(t, path)
	if text, err := os.ReadFile(path + filelock.Suffix); err != nil || len(text) > 0 {
		t.Errorf("the lock file has %q, %v", text, err)
	}
}

// A lock file that a crash, or somebody else, has left with anything in it is taken,
// and what it says while it is held by who does not say who that is.
func TestOddContent(t *testing.T) {
	for _, text := range []string{"", "4711\n", "-1", "no number", "99999999999999999999", "12" + strings.Repeat(" ", 64) + "3", strings.Repeat("1", 1<<20)} {
		path := filepath.Join(t.TempDir(), "a")
		if err := os.WriteFile(path+filelock.Suffix, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := filelock.Free(path); err != nil {
			t.Errorf("%.20q: %v", text, err)
		}
		l := take(t, path)
		requireHeld(t, path, os.Getpid())
		if err := os.WriteFile(path+filelock.Suffix, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := filelock.Take(path)
		held, ok := errors.AsType[*filelock.HeldError](err)
		want := "another process"
		if pid, err := strconv.Atoi(strings.TrimSpace(text)); err == nil && pid > 0 {
			want = "process " + strconv.Itoa(pid)
		}
		if !ok || held.Holder() != want {
			t.Errorf("%.20q: error %v, want one that names %s", text, err, want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Looking makes nothing, and does not keep the lock.
func TestFreeMakesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, path := range []string{path, filepath.Join(dir, "no folder", "a")} {
		if err := filelock.Free(path); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("there is %v, %v", entries, err)
	}
	if _, err := filelock.Take(filepath.Join(dir, "no folder", "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
}

// What stands in place of the lock file and is none is left as it is, and refused
// without a wait.
func TestNoLockFile(t *testing.T) {
	refused := func(t *testing.T, path string) {
		t.Helper()
		l, err := filelock.Take(path)
		if err == nil {
			l.Close()
			t.Error("it was taken")
		}
		for what, err := range map[string]error{"Take": err, "Free": filelock.Free(path)} {
			if _, held := errors.AsType[*filelock.HeldError](err); err == nil || held || !strings.Contains(err.Error(), path+filelock.Suffix) {
				t.Errorf("%s: error %v, want one that names what stands there", what, err)
			}
		}
	}
	t.Run("folder", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		if err := os.Mkdir(path+filelock.Suffix, 0o700); err != nil {
			t.Fatal(err)
		}
		refused(t, path)
	})
	t.Run("link", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Log("symbolic links need a privilege here")
			return
		}
		dir := t.TempDir()
		path, other := filepath.Join(dir, "a"), filepath.Join(dir, "other")
		if err := os.WriteFile(other, []byte("of somebody else"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(other, path+filelock.Suffix); err != nil {
			t.Fatal(err)
		}
		refused(t, path)
		if text, err := os.ReadFile(other); err != nil || string(text) != "of somebody else" {
			t.Errorf("what the link leads to has %q, %v", text, err)
		}
		if err := os.Remove(other); err != nil {
			t.Fatal(err)
		}
		refused(t, path)
		if _, err := os.Lstat(other); err == nil {
			t.Error("what the link leads to was made")
		}
	})
}
