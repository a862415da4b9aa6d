package audit_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/testwait"
)

// Lines that are relied on at once are with the operating system when the call returns,
// whatever fsync says. In best-effort mode nobody waits for that.
func TestWhatIsReliedOnIsWrittenAtOnce(t *testing.T) {
	kinds := map[string]struct {
		add  func(l *audit.Log) error
		wait bool
	}{
		"a call that begins": {func(l *audit.Log) error { return l.Begin(entry("a")) }, true},
		"a refusal":          {func(l *audit.Log) error { return l.Append(entry("a")) }, true},
		"a change":           {func(l *audit.Log) error { return l.Append(&audit.Entry{Event: audit.EventChange}) }, true},
		"a call that ends":   {func(l *audit.Log) error { return l.End(entry("a")) }, false},
	}
	for name, kind := range kinds {
		for _, mode := range []audit.Mode{audit.Required, audit.BestEffort} {
			for _, fsync := range []audit.Fsync{audit.FsyncInterval, audit.FsyncNone, audit.FsyncAlways} {
				d := &disk{room: -1}
				l := audit.OnFile(d, audit.Options{Mode: mode, Fsync: fsync})
				if err := kind.add(l); err != nil {
					t.Fatal(err)
				}
				var want, synced int
				if kind.wait && mode == audit.Required || fsync == audit.FsyncAlways {
					want = 1
				}
				if fsync == audit.FsyncAlways {
					synced = 1
				}
				if lines, _, syncs := d.counts(); lines != want || syncs != synced {
					t.Errorf("%s, mode %s, fsync %s: %d lines and %d syncs when it was added, want %d and %d", name, mode, fsync, lines, syncs, want, synced)
				}
			}
		}
	}
}

// inside returns when a write to a gated disk has started.
func inside(t *testing.T, d *disk) {
	t.Helper()
	select {
	case d.gate <- struct{}{}:
	case <-time.After(time.Minute):
		t.Fatal("nobody writes")
	}
}

// Calls that begin at the same time share a write, and buffered lines are written with
// them.
func TestCallsThatBeginTogetherShareWrites(t *testing.T) {
	d := &disk{room: -1, gate: make(chan struct{})}
	l := audit.OnFile(d, audit.Options{Fsync: audit.FsyncNone})
	begin := func(id string) {
		if err := l.Begin(entry(id)); err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { begin("first") })
	inside(t, d)
	for range 50 {
		wg.Go(func() { begin("other") })
	}
	end(t, l, "ended")
	testwait.Until(t, patience, "all are in the log", func() bool { return l.Stats().Entries >= 52 })
	close(d.gate)
	wg.Wait()
	if lines, writes, _ := d.counts(); lines != 52 || writes > 3 {
		t.Errorf("%d lines in %d writes, want 52 in at most 3", lines, writes)
	}
}

// A call does not begin while its line cannot be written, and neither do others that
// begin at the same time. None of them waits for ever.
func TestNoCallBeginsThatCannotBeWritten(t *testing.T) {
	d := &disk{room: 0, gate: make(chan struct{})}
	l := audit.OnFile(d, audit.Options{Fsync: audit.FsyncNone})
	var wg sync.WaitGroup
	begin := func() {
		if err := l.Begin(entry("a")); !errors.Is(err, errFull) {
			t.Errorf("Begin = %v, want %v", err, errFull)
		}
	}
	wg.Go(begin)
	inside(t, d)
	for range 50 {
		wg.Go(begin)
	}
	testwait.Until(t, patience, "all are in the log", func() bool { return l.Stats().Entries >= 51 })
	close(d.gate)
	wg.Wait()
}

// Written lines are synced within a second even if no call ends.
func TestBeginsAreSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l := audit.OnFile(d, audit.Options{})
		defer run(t, l)()
		synctest.Wait()
		for range 2 {
			if err := l.Begin(entry("a")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1200 * time.Millisecond)
			synctest.Wait()
		}
		if lines, _, syncs := d.counts(); lines != 2 || syncs != 2 {
			t.Errorf("%d lines and %d syncs, want 2 and 2", lines, syncs)
		}
	})
}

// slowSync is a disk whose syncs last until they are released.
type slowSync struct {
	disk
	entered, leave chan struct{}
}

func (s *slowSync) Sync() error {
	s.entered <- struct{}{}
	<-s.leave
	return s.disk.Sync()
}

// Calls begin while earlier lines are synced.
func TestCallsBeginDuringASync(t *testing.T) {
	t.Parallel()
	d := &slowSync{disk: disk{room: -1}, entered: make(chan struct{}), leave: make(chan struct{})}
	l := audit.OnFile(d, audit.Options{})
	stop := run(t, l)
	if err := l.Begin(entry("a")); err != nil {
		t.Fatal(err)
	}
	<-d.entered
	if err := l.Begin(entry("b")); err != nil {
		t.Fatal(err)
	}
	if lines, _, _ := d.counts(); lines != 2 {
		t.Errorf("%d lines during the sync, want 2", lines)
	}
	go func() {
		for range d.entered { // of what came during the first sync, at the end
		}
	}()
	close(d.leave)
	stop()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	close(d.entered)
	if _, _, syncs := d.counts(); syncs != 2 {
		t.Errorf("%d syncs, want one for each line", syncs)
	}
}

// What a call pays for being in the file before it is made: alone, and its share
// where many begin at once.
func BenchmarkBegin(b *testing.B) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			l, err := audit.Open(filepath.Join(b.TempDir(), "audit.jsonl"), audit.Options{Fsync: audit.FsyncNone, Key: audit.TestKey})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			var running, calls sync.WaitGroup
			running.Go(func() { l.Run(ctx) }) //nolint:errcheck // it returns nil
			b.ReportAllocs()
			b.ResetTimer()
			for i := range callers {
				calls.Go(func() {
					e := example()
					for range (b.N + i) / callers {
						if err := l.Begin(&e); err != nil {
							b.Error(err)
						}
					}
				})
			}
			calls.Wait()
			b.StopTimer()
			cancel()
			running.Wait()
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
