package audit_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/audit"
)

// disk is a file whose writes and syncs can be made to fail.
type disk struct {
	mu      sync.Mutex
	data    []byte
	room    int // bytes that fit; negative is no limit
	syncErr error
	writes  int
	syncs   int
	gate    chan struct{} // when set, a write receives from it twice
}

var errFull = errors.New("no space left on device")

func (d *disk) Write(p []byte) (int, error) {
	if d.gate != nil {
		<-d.gate
		<-d.gate
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	n := len(p)
	if d.room >= 0 && n > d.room {
		n = d.room
	}
	d.data = append(d.data, p[:n]...)
	if d.room >= 0 {
		d.room -= n
	}
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func (d *disk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	return d.syncErr
}

func (d *disk) Close() error { return nil }

func (d *disk) set(room int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = room
}

func (d *disk) counts() (lines, writes, syncs int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Count(d.data, []byte{'\n'}), d.writes, d.syncs
}

func TestRequiredLogRefusesAfterAnErrorUntilReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.jsonl")
	t.Chdir(filepath.Dir(path)) // where Reopen finds test.jsonl
	var said bytes.Buffer
	size := len(audit.AppendEntry(nil, entry("a")))
	d := &disk{room: size + size/2} // one line and a half
	l := audit.OnFile(d, audit.Options{Fsync: audit.FsyncAlways, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	add(t, l, "a")
	if err := l.Healthy(); err != nil {
		t.Fatalf("before the error: %v", err)
	}
	if err := l.Append(entry("b")); !errors.Is(err, errFull) {
		t.Errorf("Append = %v, want %v", err, errFull)
	}
	d.set(-1) // an error stays, even though the disk has room again
	if err := l.Append(entry("c")); !errors.Is(err, errFull) {
		t.Errorf("the next Append = %v, want %v", err, errFull)
	}
	if err := l.Healthy(); !errors.Is(err, errFull) {
		t.Errorf("Healthy = %v, want %v", err, errFull)
	}
	if n := strings.Count(said.String(), "cannot be written"); n != 1 {
		t.Errorf("said %d times, want once:\n%s", n, said.String())
	}
	// Half of b is in the old file; b and c as a whole are kept.
	if err := os.WriteFile(path, append([]byte(nil), d.data...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	add(t, l, "d")
	if err := errors.Join(l.Healthy(), l.Close()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"a", "?", "b", "c", "d"}, ids(t, read(t, path))); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(audit.Stats{Entries: 4, Written: 4, Repaired: 1}, l.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestSyncErrorIsSticky(t *testing.T) {
	d := &disk{room: -1, syncErr: errors.New("input/output error")}
	l := audit.OnFile(d, audit.Options{Fsync: audit.FsyncAlways})
	if err := l.Append(entry("a")); !errors.Is(err, d.syncErr) {
		t.Errorf("Append = %v, want %v", err, d.syncErr)
	}
	if err := l.Close(); !errors.Is(err, d.syncErr) {
		t.Errorf("Close = %v, want %v", err, d.syncErr)
	}
}

func TestWhatIsKeptForReopenIsBounded(t *testing.T) {
	d := &disk{room: 0}
	l := audit.OnFile(d, audit.Options{Fsync: audit.FsyncAlways})
	e := entry("a")
	e.Reason = strings.Repeat("r", audit.MaxString)
	n := 3 * audit.MaxBuffer / audit.MaxString
	for range n {
		if err := l.Append(e); err == nil {
			t.Fatal("accepted on a full disk")
		}
	}
	got := l.Stats()
	if got.Lost == 0 || got.Entries+got.Lost != uint64(n) {
		t.Errorf("%d kept and %d lost, want some lost and %d in all", got.Entries, got.Lost, n)
	}
	if err := l.Close(); err == nil {
		t.Error("Close returned no error")
	}
	if got := l.Stats(); got.Lost != uint64(n) {
		t.Errorf("after Close: %d lost, want %d", got.Lost, n)
	}
}

func TestBestEffortCountsWhatIsLostAndGoesOn(t *testing.T) {
	size := len(audit.AppendEntry(nil, entry("a")))
	d := &disk{room: size / 2}
	l := audit.OnFile(d, audit.Options{Mode: audit.BestEffort, Fsync: audit.FsyncAlways})
	add(t, l, "a", "b")
	if err := l.Healthy(); err != nil {
		t.Errorf("Healthy = %v, want nil", err)
	}
	d.set(-1)
	add(t, l, "c", "d")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"?", "c", "d"}, ids(t, d.data)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(audit.Stats{Entries: 4, Written: 2, Lost: 2, Repaired: 1}, l.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestBestEffortDoesNotWaitForAHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1, gate: make(chan struct{})}
		l := audit.OnFile(d, audit.Options{Mode: audit.BestEffort, Fsync: audit.FsyncNone})
		stop := run(t, l)
		add(t, l, "first")
		time.Sleep(time.Second)
		synctest.Wait() // Run is inside its write
		e := entry("a")
		e.Reason = strings.Repeat("r", audit.MaxString)
		for range 3 * audit.MaxBuffer / audit.MaxString {
			if err := l.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		if l.Stats().Lost == 0 {
			t.Error("nothing was given up: the buffer has no bound")
		}
		close(d.gate)
		stop()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if got := l.Stats(); got.Written != got.Entries {
			t.Errorf("%d of %d accepted entries written", got.Written, got.Entries)
		}
	})
}

// hanging is a file whose first sync hangs until it is released, and then fails. Like a
// system it reports the error only once.
type hanging struct {
	disk
	syncing, letGo chan struct{}
	later          atomic.Bool
}

func (h *hanging) Sync() error {
	if h.later.Swap(true) {
		return nil
	}
	close(h.syncing)
	<-h.letGo
	return errIO
}

var errIO = errors.New("input/output error")

// A sync that fails while the file is replaced makes the log refuse: nobody else sees
// the error.
func TestSyncErrorOfAFileThatIsReplaced(t *testing.T) {
	t.Chdir(t.TempDir()) // where Reopen finds test.jsonl
	synctest.Test(t, func(t *testing.T) {
		f := &hanging{disk: disk{room: -1}, syncing: make(chan struct{}), letGo: make(chan struct{})}
		var said bytes.Buffer
		l := audit.OnFile(f, audit.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
		stop := run(t, l)
		add(t, l, "a")
		<-f.syncing // by Run
		if err := l.Reopen(); err != nil {
			t.Fatal(err)
		}
		close(f.letGo)
		synctest.Wait()
		if err := l.Healthy(); !errors.Is(err, errIO) {
			t.Errorf("Healthy = %v, want %v", err, errIO)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := l.Healthy(); err != nil {
			t.Errorf("after Run has opened the log anew: %v", err)
		}
		stop()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(said.String(), "input/output error") {
			t.Errorf("nothing is said of the error:\n%s", said.String())
		}
	})
}

// So does a sync of a rotated file.
func TestSyncErrorOfAFileThatIsPutAside(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, mode := range []audit.Mode{audit.Required, audit.BestEffort} {
		d := &disk{room: -1, syncErr: errIO}
		l := audit.OnFile(d, audit.Options{Mode: mode})
		end(t, l, "a")
		if err := audit.PutAside(l); err != nil {
			t.Fatal(err)
		}
		if err := l.Healthy(); errors.Is(err, errIO) != (mode == audit.Required) {
			t.Errorf("mode %v: Healthy = %v", mode, err)
		}
		if err := l.Reopen(); err != nil {
			t.Errorf("mode %v: Reopen = %v", mode, err)
		}
		add(t, l, "b")
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
