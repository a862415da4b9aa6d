package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/audit"
)

// A follower sees every entry once: across rotations, ended runs, and a new chain after
// the log was moved away.
func TestFollower(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	o := audit.Options{Key: audit.TestKey, Fsync: audit.FsyncAlways, RotateSize: 2048}
	var f audit.Follower
	var got, want []string
	see := func() {
		t.Helper()
		if err := f.Read(path, func(r *audit.Record) error { got = append(got, r.CallID); return nil }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("entries (-want +got):\n%s", diff)
		}
	}
	for chain := range 3 {
		for run := range 2 {
			l, err := audit.Open(path, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 0, 12, 3} { // 12 fill several files
				for i := range n {
					id := fmt.Sprintf("%d-%d-%d-%d", chain, run, n, i)
					add(t, l, id)
					want = append(want, id)
				}
				see()
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		files, err := audit.Files(path)
		if err != nil || len(files) < 3 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		away := t.TempDir()
		for _, name := range files {
			move(t, name, filepath.Join(away, filepath.Base(name)))
		}
	}
}

// A changed line hides no other.
func TestReadPassesOverWhatIsUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path, audit.Options{Fsync: audit.FsyncNone})
	add(t, l, "a", "b", "c")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(read(t, path), []byte(`"call_id":"b"`), []byte(`"call_id":!b"`), 1)
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	err := audit.Read([]string{path}, func(r *audit.Record) error { got = append(got, r.CallID); return nil })
	var unreadable *audit.UnreadableError
	if !errors.As(err, &unreadable) || unreadable.Lines != 1 || unreadable.Seq != 3 || unreadable.File != path {
		t.Errorf("Read = %v", err)
	}
	if diff := cmp.Diff([]string{"a", "c"}, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// The entries of one call are those that Read finds, and a line that may have been of it is
// noted.
func TestReadCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path, audit.Options{Fsync: audit.FsyncNone})
	add(t, l, "a", "b", "ab", "b", "c")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"a": 1, "b": 2, "ab": 1, "c": 1, "": 5, "d": 0}
	for id, n := range want {
		got := 0
		if err := audit.ReadCall(t.Context(), []string{path}, id, func(r *audit.Record) error { got++; return nil }); err != nil || got != n {
			t.Errorf("%q has %d entries (%v), want %d", id, got, err, n)
		}
	}
	changed := bytes.Replace(read(t, path), []byte(`"call_id":"c"`), []byte(`"call_id":!c"`), 1)
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	var unreadable *audit.UnreadableError
	if err := audit.ReadCall(t.Context(), []string{path}, "c", func(*audit.Record) error { return errors.New("found") }); !errors.As(err, &unreadable) || unreadable.Lines != 1 {
		t.Errorf("ReadCall = %v", err)
	}
}

// Whoever leaves is read for no longer, also where nothing is of the call.
func TestReadCallThatIsOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path, audit.Options{Fsync: audit.FsyncNone})
	for range 300 {
		add(t, l, "a")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := audit.ReadCall(ctx, []string{path}, "b", func(*audit.Record) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("ReadCall = %v", err)
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
