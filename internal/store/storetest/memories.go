package storetest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolgate/toolgate/internal/store"
)

// text is a memory that lasts.
func text(name, body string) store.MemoryRecord {
	return store.MemoryRecord{Kind: store.MemoryText, Name: name, Body: body, ExpiresAt: time.Now().Add(time.Hour).UTC().Round(0)}
}

// memories checks that a principal has its texts back, and that no other principal and
// no other kind has, even with their ids.
func memories(t *testing.T, s *store.Store) {
	m, ctx := store.NewMemories(s), t.Context()
	const alice, mallory = "alice\x00\xff", "alice\x00\xfe"
	save := func(who string, r store.MemoryRecord) store.MemoryRecord {
		t.Helper()
		got, err := m.Save(ctx, who, r)
		must(t, err)
		return got
	}
	bodies := func(who string, kind store.MemoryKind) (out []string) {
		t.Helper()
		list, err := m.List(ctx, who, kind)
		must(t, err)
		for _, r := range list {
			out = append(out, r.Name+"="+r.Body)
		}
		return out
	}
	first := save(alice, text("", "first ä 'x' ? $1"))
	named := save(alice, text("door", "code 1"))
	again := save(alice, text("door", "code 2"))
	if again.ID != named.ID || first.ID == named.ID || !strings.HasPrefix(first.ID, "mem_") {
		t.Errorf("ids %s, %s and %s", first.ID, named.ID, again.ID)
	}
	recently(t, "SavedAt", first.SavedAt)
	note := text("door", "a note")
	note.Kind = store.MemoryNote
	save(alice, note)
	other := save(mallory, text("door", "of another"))
	if diff := cmp.Diff([]string{"door=code 2", "=first ä 'x' ? $1"}, bodies(alice, store.MemoryText)); diff != "" {
		t.Errorf("memories (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"door=a note"}, bodies(alice, store.MemoryNote)); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	list, err := m.List(ctx, alice, store.MemoryText)
	must(t, err)
	if diff := cmp.Diff(again, list[0], cmpopts.EquateApproxTime(time.Millisecond)); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if removed, err := m.Delete(ctx, mallory, first.ID, named.ID, "", "\x00", "mem_%"); err != nil || removed != nil {
		t.Errorf("another has removed %v, %v", removed, err)
	}
	removed, err := m.Delete(ctx, alice, first.ID, other.ID, first.ID)
	if diff := cmp.Diff([]string{first.ID}, removed); diff != "" || err != nil {
		t.Errorf("removed %v (-want +got):\n%s", err, diff)
	}
	if got := bodies(mallory, store.MemoryText); !cmp.Equal(got, []string{"door=of another"}) {
		t.Errorf("the other has %q", got)
	}
	if got := bodies("nobody", store.MemoryText); got != nil {
		t.Errorf("nobody has %q", got)
	}
}

// memoriesBounded checks the limits, also against concurrent callers.
func memoriesBounded(t *testing.T, s *store.Store) {
	m, ctx := store.NewMemories(s), context.Background()
	for range store.MaxMemories - 2 {
		_, err := m.Save(ctx, "full", text("", "x"))
		must(t, err)
	}
	var refused atomic.Int64
	if n := Race(t, 4, func(s *store.Store) (bool, error) {
		_, err := m.Save(ctx, "full", text("", "x"))
		if errors.Is(err, store.ErrTooMany) {
			refused.Add(1)
			return false, nil
		}
		return err == nil, err
	}, s); n != 2 || refused.Load() != 2 {
		t.Errorf("%d were saved and %d refused, want 2 and 2", n, refused.Load())
	}
	if _, err := m.Save(ctx, "other", text("", "x")); err != nil {
		t.Errorf("the texts of another count: %v", err)
	}
	kind := text("", "x")
	kind.Kind = "secret"
	for name, bad := range map[string]store.MemoryRecord{
		"no text": text("", ""), "large": text("", strings.Repeat("x", store.MaxMemory+1)), "no UTF-8": text("", "\xff"), "NUL": text("\x00", "x"),
		"a long name": text(strings.Repeat("n", 129), "x"), "a kind": kind,
	} {
		if _, err := m.Save(ctx, "p", bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, bad := range []string{"", strings.Repeat("p", 1025)} {
		if _, err := m.Save(ctx, bad, text("", "x")); err == nil {
			t.Errorf("a principal of %d bytes: no error", len(bad))
		}
	}
	if _, err := m.Delete(ctx, "p", make([]string, store.MaxMemories+1)...); !errors.Is(err, store.ErrTooMany) {
		t.Errorf("Delete of too many = %v", err)
	}
}

// memoriesExpire checks that an expired text is gone for its owner at once, and that its
// name and its place are free.
func memoriesExpire(t *testing.T, s *store.Store) {
	m := store.NewMemories(s)
	soon := text("door", "code")
	soon.ExpiresAt = time.Now().Add(50 * time.Millisecond)
	old, err := m.Save(t.Context(), "p", soon)
	must(t, err)
	waitFor(t, "the text to expire", func() bool {
		list, err := m.List(t.Context(), "p", store.MemoryText)
		must(t, err)
		return len(list) == 0
	})
	next, err := m.Save(t.Context(), "p", text("door", "another"))
	if err != nil || next.ID == old.ID {
		t.Errorf("saved under %s after %s, %v", next.ID, old.ID, err)
	}
	if removed, err := m.Delete(t.Context(), "p", old.ID); removed != nil || err != nil {
		t.Errorf("what has expired is there still: %v, %v", removed, err)
	}
}
