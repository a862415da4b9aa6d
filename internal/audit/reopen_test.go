//go:build !windows

package audit_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/testwait"
)

// limit makes every file of this process end at size, like a full disk: what fits is
// written, and then there is an error. The returned function makes room again.
func limit(t *testing.T, size uint64) (room func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	small := before
	small.Cur = size
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	room = sync.OnceFunc(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(room)
	return room
}

// fill appends entries until the log refuses, and returns how many it took.
func fill(t *testing.T, l *audit.Log) (n int) {
	t.Helper()
	for n < 1000 {
		err := l.Append(entry(fmt.Sprint(n)))
		n++
		if err != nil {
			return n
		}
	}
	t.Fatal("the disk is full and nothing is refused")
	return n
}

// While a log checks whether its file can be written again it still refuses. It
// recovers when the kept lines are written, and logs each change once.
func TestReopenRefusesUntilSomethingIsWritten(t *testing.T) {
	if !alone(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var said bytes.Buffer
	l, err := audit.Open(path, audit.Options{Fsync: audit.FsyncAlways, Key: audit.TestKey, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	room := limit(t, 8<<10)
	fill(t, l)
	stop, ended := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				ended <- n
				return
			default:
			}
			if l.Healthy() == nil {
				n++
			}
		}
	}()
	for range 300 {
		if err := l.Reopen(); err == nil {
			t.Error("the disk is full, and Reopen says that it is not")
		}
	}
	close(stop)
	if n := <-ended; n > 0 {
		t.Errorf("%d times it was well although nothing could be written", n)
	}
	room()
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	broken, again := strings.Count(said.String(), "cannot be written"), strings.Count(said.String(), "can be written again")
	if broken != 1 || again != 1 {
		t.Errorf("said %d times that it cannot be written and %d times that it can again, want each once", broken, again)
	}
}

// However often a log retries, what it keeps meanwhile is bounded, and is finally
// written.
func TestReopenKeepsWithinItsBound(t *testing.T) {
	if !alone(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := audit.Open(path, audit.Options{Fsync: audit.FsyncAlways, Key: audit.TestKey})
	if err != nil {
		t.Fatal(err)
	}
	room := limit(t, 8<<10)
	e := entry("a")
	e.Reason = strings.Repeat("r", audit.MaxString)
	size := len(audit.AppendEntry(nil, e))
	for i := range 5 {
		for lost := l.Stats().Lost; l.Stats().Lost == lost; {
			_ = l.Append(e) // which fits at first
		}
		if err := l.Reopen(); err == nil {
			t.Fatal("the disk is full, and Reopen says that it is not")
		}
		got := l.Stats()
		if kept := int(got.Entries-got.Written) * size; kept > 2*audit.MaxBuffer {
			t.Errorf("after %d attempts %d KiB are kept, want at most %d", i+1, kept>>10, 2*audit.MaxBuffer>>10)
		}
	}
	room()
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	if got := l.Stats(); got.Written != got.Entries {
		t.Errorf("%d of %d accepted entries are written", got.Written, got.Entries)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := verify(t, path, nil); len(got.Findings) > 0 || got.Lost != l.Stats().Lost {
		t.Errorf("%d entries were lost: %+v", l.Stats().Lost, got)
	}
}

// After a disk was full Run recovers by itself, and nothing is lost.
func TestRunRecoversFromAFullDisk(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := audit.Open(path, audit.Options{Fsync: audit.FsyncInterval, Key: audit.TestKey})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, l)
	room := limit(t, 8<<10)
	n := 0
	testwait.Until(t, patience, "the log refuses", func() bool { n++; return l.Append(entry(fmt.Sprint(n))) != nil })
	if info, err := os.Stat(path); err != nil || info.Size() > 8<<10 {
		t.Errorf("%v, %v", info, err)
	}
	room()
	testwait.Until(t, patience, "the log takes entries again", func() bool { return l.Healthy() == nil })
	add(t, l, "last")
	stop()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := verify(t, path, nil); len(got.Findings) > 0 || got.Calls != uint64(n)+1 || got.Lost != 0 {
		t.Errorf("%d calls: %+v", n, got)
	}
}

// In a folder that accepts no new names, the file cannot be rotated, grows on and takes
// every entry. It is rotated once that is possible.
func TestRotationInAFolderThatCannotBeWritten(t *testing.T) {
	if !alone(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "log")
	path := filepath.Join(dir, "audit.jsonl")
	synctest.Test(t, func(t *testing.T) {
		l, err := audit.Open(path, audit.Options{Fsync: audit.FsyncAlways, Key: audit.TestKey, RotateSize: 4096})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, l)
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		if f, err := os.Create(filepath.Join(dir, "x")); err == nil {
			t.Fatalf("the folder takes %s", f.Name())
		}
		const calls = 30
		for i := range calls {
			add(t, l, fmt.Sprint(i))
		}
		if files, err := audit.Files(path); err != nil || len(files) != 1 {
			t.Errorf("%v, %v", files, err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		add(t, l, "last")
		stop()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if files, err := audit.Files(path); err != nil || len(files) != 2 {
			t.Errorf("%v, %v", files, err)
		}
		if got := verify(t, path, nil); len(got.Findings) > 0 || got.Calls != calls+1 || got.Lost != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// If the file cannot even be reopened, as on a file system that became read-only,
// entries are refused, kept, and written later.
func TestRotationWhereNothingCanBeOpened(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "log")
	path := filepath.Join(dir, "audit.jsonl")
	l, err := audit.Open(path, audit.Options{Fsync: audit.FsyncAlways, Key: audit.TestKey, RotateSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, l)
	for name, mode := range map[string]os.FileMode{path: 0o400, dir: 0o500} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	n := fill(t, l)
	if l.Healthy() == nil {
		t.Error("it is well")
	}
	for name, mode := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	testwait.Until(t, patience, "the log takes entries again", func() bool { return l.Healthy() == nil })
	add(t, l, "last")
	stop()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := verify(t, path, nil); len(got.Findings) > 0 || got.Calls != uint64(n)+1 || got.Lost != 0 {
		t.Errorf("%d calls: %+v", n, got)
	}
}
