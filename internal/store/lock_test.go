package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/store"
)

func TestSecondOpenInThisProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, store.Options{Path: path})
	requireInUse(t, path, os.Getpid())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, store.Options{Path: path})
}

func TestSecondProcessIsRefusedUntilTheFirstEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	cmd, _ := startChild(t, path)
	requireInUse(t, path, cmd.Process.Pid)
	open(t, store.Options{Path: path, ReadOnly: true}) // readers need no lock
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() //nolint:errcheck // it was killed
	open(t, store.Options{Path: path})
}

func TestTwoNamesOfOneStoreMeetAtOneLock(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("symbolic links need a privilege here")
		return
	}
	dir := t.TempDir()
	path, alias := filepath.Join(dir, "store.db"), filepath.Join(dir, "alias.db")
	open(t, store.Options{Path: path})
	if err := os.Symlink(path, alias); err != nil {
		t.Fatal(err)
	}
	requireInUse(t, alias, os.Getpid())
}

// A store with two names is opened under neither, because each would have its own lock
// and log. With one name again it is opened.
func TestStoreWithTwoNamesIsRefused(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "store.db"), filepath.Join(dir, "other.db")
	first := open(t, store.Options{Path: path})
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	refused := func(path string) {
		t.Helper()
		s, err := store.Open(t.Context(), store.Options{Path: path})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "hard link") {
			t.Errorf("%s: error %v, want one that names the file and says what is wrong", filepath.Base(path), err)
		}
	}
	refused(other) // while the first one runs
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	refused(path)
	refused(other)
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	open(t, store.Options{Path: path})
}

func requireInUse(t *testing.T, path string, pid int) {
	t.Helper()
	_, err := store.Open(t.Context(), store.Options{Path: path})
	in, ok := errors.AsType[*store.InUseError](err)
	if !ok {
		t.Fatalf("error = %v, want *InUseError", err)
	}
	if in.PID != pid || !strings.Contains(err.Error(), "process "+strconv.Itoa(pid)) {
		t.Errorf("error %q names process %d, want %d", err, in.PID, pid)
	}
}

// While a claim lasts, neither a store in the file nor another claim can be opened.
func TestClaim(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	claim, err := store.Claim(path)
	if err != nil {
		t.Fatal(err)
	}
	requireInUse(t, path, os.Getpid())
	if _, err := store.Claim(path); !errors.As(err, new(*store.InUseError)) {
		t.Errorf("claimed twice: %v", err)
	}
	if err := claim.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, store.Options{Path: path})
	if _, err := store.Claim(path); !errors.As(err, new(*store.InUseError)) {
		t.Errorf("claimed beside a store: %v", err)
	}
}
