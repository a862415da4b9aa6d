package audit_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/testwait"
)

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = 30 * time.Second

func entry(id string) *audit.Entry { return &audit.Entry{CallID: id, Outcome: audit.OutcomeOK} }

// ids returns the call ids in a file in order, "?" for a line that is not JSON.
func ids(t *testing.T, b []byte) []string {
	t.Helper()
	var list []string
	if len(b) > 0 && b[len(b)-1] != '\n' {
		t.Errorf("the file ends inside a line: %q", b[bytes.LastIndexByte(b, '\n')+1:])
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		var e audit.Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			list = append(list, "?")
			continue
		}
		if e.Event == "open" { // of the chain
			continue
		}
		list = append(list, e.CallID)
	}
	return list
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func open(t *testing.T, path string, o audit.Options) *audit.Log {
	t.Helper()
	o.Key = audit.TestKey
	l, err := audit.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() }) // tests that care about its error close it themselves
	return l
}

func add(t *testing.T, l *audit.Log, list ...string) {
	t.Helper()
	for _, id := range list {
		if err := l.Append(entry(id)); err != nil {
			t.Fatal(err)
		}
	}
}

// end adds ends of calls, for which nobody waits.
func end(t *testing.T, l *audit.Log, list ...string) {
	t.Helper()
	for _, id := range list {
		if err := l.End(entry(id)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLinesAreAppendedAcrossOpens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	path := filepath.Join(dir, "audit.jsonl")
	for _, id := range []string{"a", "b"} {
		l := open(t, path, audit.Options{})
		add(t, l, id+"1", id+"2")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"a1", "a2", "b1", "b2"}, ids(t, read(t, path))); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for name, want := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, error %v; want %o", filepath.Base(name), info.Mode(), err, want)
		}
	}
}

func TestHalfLineOfACrashIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	whole := audit.AppendEntry(nil, entry("before"))
	if err := os.WriteFile(path, append(whole, `{"time":"2026`...), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, path, audit.Options{})
	add(t, l, "after")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"before", "?", "after"}, ids(t, read(t, path))); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got := l.Stats().Repaired; got != 1 {
		t.Errorf("Repaired = %d, want 1", got)
	}
	l = open(t, path, audit.Options{})
	if got := l.Stats().Repaired; got != 0 {
		t.Errorf("Repaired at the next open = %d, want 0", got)
	}
}

func TestOpenExplainsItself(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "file", "audit.jsonl")} {
		_, err := audit.Open(path, audit.Options{Key: audit.TestKey})
		if err == nil || !strings.Contains(err.Error(), "open audit log "+path) {
			t.Errorf("Open(%s) = %v, want an error that names it", path, err)
		}
	}
}

func TestRunWritesWithin100Milliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l := audit.OnFile(d, audit.Options{Fsync: audit.FsyncNone})
		stop := run(t, l)
		end(t, l, "a")
		time.Sleep(99 * time.Millisecond)
		end(t, l, "b")
		if lines, _, _ := d.counts(); lines != 0 {
			t.Errorf("after 99 ms: %d lines, want none", lines)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if lines, writes, syncs := d.counts(); lines != 2 || writes != 1 || syncs != 0 {
			t.Errorf("after 101 ms: %d lines in %d writes and %d syncs, want 2 in 1 and none", lines, writes, syncs)
		}
		time.Sleep(time.Hour)
		if _, writes, _ := d.counts(); writes != 1 {
			t.Errorf("an idle log wrote %d times", writes-1)
		}
		end(t, l, "c")
		stop()
		if lines, _, _ := d.counts(); lines != 3 {
			t.Errorf("after Run: %d lines, want 3", lines)
		}
	})
}

// run starts Run; the returned function ends it and waits for it.
func run(t *testing.T, l *audit.Log) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestFullBufferIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l := audit.OnFile(d, audit.Options{Fsync: audit.FsyncNone})
		defer run(t, l)()
		synctest.Wait()
		size := len(audit.AppendEntry(nil, entry("a")))
		for range audit.FlushAt/size + 1 {
			end(t, l, "a")
		}
		synctest.Wait() // no time passes
		if lines, _, _ := d.counts(); lines != audit.FlushAt/size+1 {
			t.Errorf("%d lines, want all %d", lines, audit.FlushAt/size+1)
		}
	})
}

func TestFsync(t *testing.T) {
	for _, tc := range []struct {
		name                 string
		fsync                audit.Fsync
		appended, sec1, sec2 int
	}{
		{"none", audit.FsyncNone, 0, 0, 0},
		{"interval", audit.FsyncInterval, 0, 1, 1},
		{"always", audit.FsyncAlways, 10, 10, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &disk{room: -1}
				l := audit.OnFile(d, audit.Options{Fsync: tc.fsync})
				defer run(t, l)()
				var got [3]int
				for range 10 {
					end(t, l, "a")
				}
				_, _, got[0] = d.counts()
				for i := range 2 {
					time.Sleep(1200 * time.Millisecond)
					synctest.Wait()
					_, _, got[i+1] = d.counts()
				}
				if want := [3]int{tc.appended, tc.sec1, tc.sec2}; got != want {
					t.Errorf("syncs after appending, 1 s and 2 s = %v, want %v", got, want)
				}
			})
		})
	}
}

func TestConcurrentDurableCallersShareSyncs(t *testing.T) {
	d := &disk{room: -1, gate: make(chan struct{})}
	l := audit.OnFile(d, audit.Options{Fsync: audit.FsyncAlways})
	var wg sync.WaitGroup
	wg.Go(func() { add(t, l, "first") })
	d.gate <- struct{}{} // the first is inside its write
	for range 50 {
		wg.Go(func() { add(t, l, "other") })
	}
	testwait.Until(t, patience, "all are in the log", func() bool { return l.Stats().Entries >= 51 })
	close(d.gate)
	wg.Wait()
	// How many of the fifty were there when the first was written is chance;
	// those that were not share one write.
	if lines, writes, syncs := d.counts(); lines != 51 || writes > 3 || syncs > 3 {
		t.Errorf("%d lines in %d writes and %d syncs, want 51 in at most 3 and 3", lines, writes, syncs)
	}
}

func TestFullBufferIsWrittenWithoutRun(t *testing.T) {
	for _, mode := range []audit.Mode{audit.Required, audit.BestEffort} {
		d := &disk{room: -1}
		l := audit.OnFile(d, audit.Options{Mode: mode, Fsync: audit.FsyncNone})
		e := entry("a")
		e.Reason = strings.Repeat("r", audit.MaxString)
		n := 3 * audit.MaxBuffer / audit.MaxString
		for range n {
			if err := l.End(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if got := l.Stats(); got.Written != uint64(n) || got.Lost != 0 {
			t.Errorf("mode %s: %d written and %d lost of %d", mode, got.Written, got.Lost, n)
		}
	}
}

// The memory of a moment when much waited for the disk is not kept.
func TestLargeBuffersAreNotKept(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "audit.jsonl"), audit.Options{Fsync: audit.FsyncNone, Mode: audit.BestEffort})
	for range 4000 {
		add(t, l, "burst")
	}
	if got := audit.Held(l); got < 2*audit.KeptBuffer {
		t.Fatalf("a burst takes %d bytes", got)
	}
	audit.Flush(l)
	for range 3 {
		add(t, l, "one")
		audit.Flush(l)
	}
	if got := audit.Held(l); got > audit.KeptBuffer {
		t.Errorf("%d bytes are kept", got)
	}
}

func TestReopenFollowsARotation(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("an open file cannot be moved here")
		return
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path, audit.Options{})
	add(t, l, "a")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	add(t, l, "b")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got := [][]string{ids(t, read(t, path+".1")), ids(t, read(t, path))}
	if diff := cmp.Diff([][]string{{"a"}, {"b"}}, got); diff != "" {
		t.Errorf("calls in the old and the new file (-want +got):\n%s", diff)
	}
	if err := l.Reopen(); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("Reopen after Close = %v, want ErrClosed", err)
	}
}

func TestZeroAndClosedLogsRefuse(t *testing.T) {
	var zero audit.Log
	if err := zero.Append(entry("a")); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("zero Append = %v, want ErrClosed", err)
	}
	if err := zero.Run(t.Context()); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("zero Run = %v, want ErrClosed", err)
	}
	l := open(t, filepath.Join(t.TempDir(), "audit.jsonl"), audit.Options{Mode: audit.BestEffort})
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(entry("a")); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("Append after Close = %v, want ErrClosed", err)
	}
}

func TestDiscardAcceptsAndKeepsNothing(t *testing.T) {
	l := audit.Discard()
	stop := run(t, l)
	add(t, l, "a")
	stop()
	if err := errors.Join(l.Healthy(), l.Reopen(), l.Close()); err != nil {
		t.Error(err)
	}
	if got := l.Stats(); got.Entries != 1 || got.Written != 0 {
		t.Errorf("stats = %+v", got)
	}
}

func TestEveryCallOfManyIsOneLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path, audit.Options{Fsync: audit.FsyncNone})
	stop := run(t, l)
	const callers, each = 16, 500
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			for i := range each {
				write := l.End
				if i%3 == 0 {
					write = l.Append
				}
				if err := write(entry(fmt.Sprintf("%d/%d", g, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	stop()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, id := range ids(t, read(t, path)) {
		if id == "?" || seen[id] {
			t.Fatalf("line of call %q is not JSON or comes twice", id)
		}
		seen[id] = true
	}
	if len(seen) != callers*each {
		t.Errorf("%d calls in the file, want %d", len(seen), callers*each)
	}
}

func TestEndAllocatesNothing(t *testing.T) {
	d := &disk{room: -1}
	l := audit.OnFile(d, audit.Options{Fsync: audit.FsyncNone})
	e := example()
	for range 2 * audit.MaxBuffer / 256 { // both buffers have their size
		if err := l.End(&e); err != nil {
			t.Fatal(err)
		}
	}
	d.data = make([]byte, 0, 8<<20)
	if got := testing.AllocsPerRun(1000, func() {
		if err := l.End(&e); err != nil {
			t.Fatal(err)
		}
	}); got > 1 {
		t.Errorf("%v allocations per End, want at most 1", got)
	}
}

// null takes everything at no cost.
type null struct{}

func (null) Write(p []byte) (int, error) { return len(p), nil }
func (null) Sync() error                 { return nil }
func (null) Close() error                { return nil }

// The cost on the path of a call is End/null; End/file adds what one
// call's share of writing costs when nothing else is done.
func BenchmarkEnd(b *testing.B) {
	o := audit.Options{Fsync: audit.FsyncNone, Key: audit.TestKey}
	for name, open := range map[string]func() (*audit.Log, error){
		"null": func() (*audit.Log, error) { return audit.OnFile(null{}, o), nil },
		"file": func() (*audit.Log, error) { return audit.Open(filepath.Join(b.TempDir(), "audit.jsonl"), o) },
	} {
		b.Run(name, func(b *testing.B) {
			l, err := open()
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			wg.Go(func() { l.Run(ctx) }) //nolint:errcheck // it returns nil
			e := example()
			b.ReportAllocs()
			for b.Loop() {
				if err := l.End(&e); err != nil {
					b.Fatal(err)
				}
			}
			cancel()
			wg.Wait()
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	e := example()
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf = audit.AppendEntry(buf[:0], &e)
	}
}
