package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/raced"
)

// keep is an anchor in memory.
type keep struct{ heads map[string]audit.Head }

func (k *keep) put(_ context.Context, h audit.Head) error {
	k.heads[h.Run] = h
	return nil
}

func (k *keep) all() (heads []audit.Head) {
	for _, h := range k.heads {
		heads = append(heads, h)
	}
	return heads
}

// verify checks the log at path against the anchors.
func verify(t testing.TB, path string, anchors []audit.Head) *audit.Report {
	t.Helper()
	files, err := audit.Files(path)
	if err != nil {
		t.Fatal(err)
	}
	report, err := audit.Verify(files, []audit.Key{audit.TestKey}, anchors, nil)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// filled is a log of several runs and files, with its anchors.
func filled(t testing.TB) (path string, anchors *keep) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.jsonl")
	anchors = &keep{heads: make(map[string]audit.Head)}
	for run := range 3 {
		l, err := audit.Open(path, audit.Options{Key: audit.TestKey, Replica: "r", Fsync: audit.FsyncNone, RotateSize: 4096, Anchor: anchors.put})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			e := entry(fmt.Sprintf("%d-%d", run, i))
			e.Event = audit.EventBegin
			if err := l.Append(e); err != nil {
				t.Fatal(err)
			}
			e.Event = audit.EventEnd
			if err := l.Append(e); err != nil {
				t.Fatal(err)
			}
			if i%3 == 0 {
				audit.Flush(l)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return path, anchors
}

func TestVerifyFindsNothingInWhatWasWritten(t *testing.T) {
	path, anchors := filled(t)
	got := verify(t, path, anchors.all())
	if len(got.Findings) != 0 || got.Calls != 36 || got.Open != 0 || got.Files < 3 || got.Chains != 1 || got.Anchors != 3 {
		t.Errorf("%+v", got)
	}
}

// Any change anywhere in a log is found.
func TestVerifyFindsEveryChange(t *testing.T) {
	path, anchors := filled(t)
	files, err := audit.Files(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := make([][]byte, len(files))
	for i, f := range files {
		whole[i] = read(t, f)
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range raced.Times(400, 120) {
		at := rnd.IntN(len(files))
		before := whole[at]
		lines := bytes.SplitAfter(before, []byte("\n"))
		lines = lines[:len(lines)-1]
		n := rnd.IntN(len(lines))
		var after []byte
		var what string
		switch rnd.IntN(6) {
		case 0:
			i := rnd.IntN(len(before))
			after = bytes.Clone(before)
			after[i] ^= 1 << rnd.IntN(8)
			what = fmt.Sprintf("byte %d flipped", i)
		case 1:
			after, what = bytes.Join(append(append([][]byte{}, lines[:n]...), lines[n+1:]...), nil), fmt.Sprintf("line %d removed", n)
		case 2:
			other := lines[rnd.IntN(len(lines))]
			after, what = bytes.Join(append(append(append([][]byte{}, lines[:n]...), other), lines[n:]...), nil), fmt.Sprintf("a line inserted at %d", n)
		case 3:
			i := rnd.IntN(len(before))
			after, what = before[:i], fmt.Sprintf("cut at byte %d", i)
		case 4:
			m := rnd.IntN(len(lines))
			if bytes.Equal(lines[n], lines[m]) {
				continue
			}
			swapped := append([][]byte{}, lines...)
			swapped[n], swapped[m] = swapped[m], swapped[n]
			after, what = bytes.Join(swapped, nil), fmt.Sprintf("lines %d and %d swapped", n, m)
		case 5:
			i := rnd.IntN(len(before) + 1)
			after, what = bytes.Join([][]byte{before[:i], []byte("{}\n"), before[i:]}, nil), fmt.Sprintf("bytes inserted at %d", i)
		}
		if err := os.WriteFile(files[at], after, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := audit.Verify(files, []audit.Key{audit.TestKey}, anchors.all(), nil); err != nil || len(got.Findings) == 0 {
			t.Errorf("seed %d: %s of %s is not found (%v)", seed, what, filepath.Base(files[at]), err)
		}
		if err := os.WriteFile(files[at], before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, f := range files { // and that a whole file is gone
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
		left, err := audit.Files(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := audit.Verify(left, []audit.Key{audit.TestKey}, anchors.all(), nil); err != nil || len(got.Findings) == 0 {
			t.Errorf("that %s is gone is not found (%v)", filepath.Base(f), err)
		}
		if err := os.WriteFile(f, whole[i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Nobody can write a line without the key.
func TestVerifyAsksForTheKey(t *testing.T) {
	path, anchors := filled(t)
	files, err := audit.Files(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, keys := range map[string][]audit.Key{
		"another": {{ID: audit.TestKey.ID, Secret: bytes.Repeat([]byte{1}, 32)}},
		"none":    nil,
	} {
		if got, err := audit.Verify(files, keys, anchors.all(), nil); err != nil || len(got.Findings) == 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A killed gateway leaves calls open; the next start closes them, and the chain
// continues.
func TestCallsThatWereLeftOpenAreUnknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path, audit.Options{})
	for _, id := range []string{"a", "b"} {
		e := entry(id)
		e.Event, e.Name, e.Outcome = audit.EventBegin, "files__read", ""
		if err := l.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	add(t, l, "a")
	audit.Flush(l)
	half := append(read(t, path), `{"seq":9,"ev`...)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, half, 0o600); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, audit.Options{})
	if got := l.Stats(); got.Unknown != 1 || got.Repaired != 1 {
		t.Errorf("stats %+v", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := audit.Closed(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 || entries[1].CallID != "b" || entries[1].Outcome != audit.OutcomeUnknown || entries[1].Name != "files__read" {
		t.Errorf("closed: %+v", entries)
	}
	if got := verify(t, path, nil); len(got.Findings) != 0 || got.Open != 0 || got.Torn == 0 {
		t.Errorf("%+v", got)
	}
}
