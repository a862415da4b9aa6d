package audit_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
)

// A chain is anchored from its start. A store that hangs does not delay lines, and one
// that fails is retried even without new lines.
func TestAnchors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	synctest.Test(t, func(t *testing.T) {
		var asked, kept atomic.Uint64
		var down, hangs atomic.Bool
		put := func(ctx context.Context, h audit.Head) error {
			asked.Add(1)
			if hangs.Load() {
				<-ctx.Done()
			}
			if down.Load() {
				return errors.New("the store is down")
			}
			kept.Store(h.Seq)
			return ctx.Err()
		}
		l, err := audit.Open(path, audit.Options{Key: audit.TestKey, Fsync: audit.FsyncNone, Anchor: put})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, l)
		synctest.Wait()
		if kept.Load() != 1 {
			t.Errorf("anchored at the start: line %d, want 1", kept.Load())
		}
		time.Sleep(time.Hour)
		if asked.Load() != 1 {
			t.Errorf("anchored %d times while nothing came", asked.Load())
		}

		hangs.Store(true)
		add(t, l, "a")
		time.Sleep(11 * time.Second) // the anchor is under way
		synctest.Wait()
		add(t, l, "b")
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if !bytes.Contains(read(t, path), []byte(`"call_id":"b"`)) {
			t.Error("a line waits for the store")
		}

		hangs.Store(false)
		down.Store(true)
		time.Sleep(time.Minute)
		down.Store(false)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if kept.Load() != 3 {
			t.Errorf("anchored after the store came back: line %d, want 3", kept.Load())
		}
		stop()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What a killed run had not anchored is anchored as soon as the next run starts, with
// the ends of its open calls, even without new calls.
func TestWhatAKilledRunLeftIsAnchoredAtTheNextStart(t *testing.T) {
	dir := t.TempDir()
	killed := open(t, filepath.Join(dir, "audit.jsonl"), audit.Options{})
	if err := killed.Begin(entry("a")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "left.jsonl") // what a kill leaves
	if err := os.WriteFile(path, read(t, filepath.Join(dir, "audit.jsonl")), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		anchors := &keep{heads: make(map[string]audit.Head)}
		l, err := audit.Open(path, audit.Options{Key: audit.TestKey, Fsync: audit.FsyncNone, Anchor: anchors.put})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, l)
		synctest.Wait() // no time passes
		if got := anchors.all(); len(got) != 1 || got[0].Seq != 4 || got[0].MAC != l.Head().MAC {
			t.Errorf("anchored %+v, want line 4: the mark and the call of each run", got)
		}
		stop()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}
