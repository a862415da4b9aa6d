package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/store"
)

func catalogs(t *testing.T, s *store.Store) {
	c := s.Catalogs()
	want := store.CatalogRecord{
		Server: "files", Credential: "cred", Spec: "s1", Body: []byte{0, 0xff, '{', '\\'}, MAC: []byte{1},
		SavedAt: time.Now().Add(-time.Hour).UTC().Round(0),
	}
	old := want
	old.Spec, old.SavedAt = "s2", time.Now().Add(-31*24*time.Hour)
	for _, r := range []store.CatalogRecord{{Server: "files", Credential: "cred", Spec: "s1", SavedAt: old.SavedAt}, want, old} {
		must(t, c.Save(t.Context(), r))
	}
	got, ok, err := c.Load(t.Context(), "files", "cred", "s1")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if _, ok, err := c.Load(t.Context(), "files", "cred", "s2"); ok || err != nil {
		t.Errorf("too old: found %v, %v", ok, err)
	}
	if n, err := c.Prune(t.Context()); n != 1 || err != nil {
		t.Errorf("removed %d, %v; want 1", n, err)
	}
	must(t, c.Delete(t.Context(), "files"))
	if _, ok, err := c.Load(t.Context(), "files", "cred", "s1"); ok || err != nil {
		t.Errorf("after Delete: found %v, %v", ok, err)
	}
}

func capabilities(t *testing.T, s *store.Store) {
	keys := []store.CapabilityKey{
		{Server: "files", Kind: "tool", Original: "read"},
		{Server: "files", Kind: "tool", Original: "READ"},
		{Server: "files", Kind: "prompt", Original: "read"},
		{Server: "files", Kind: "tool", Original: "nul\x00, \xff and ' ? $1"},
		{Server: "files", Kind: "resource", Original: "long://" + strings.Repeat("x", 60_000)},
		{Server: "files", Kind: "tool", Original: "read"},
	}
	for i := range 200 {
		keys = append(keys, store.CapabilityKey{Server: "files", Kind: "tool", Original: fmt.Sprint(i % 150)})
	}
	var want []string
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			ids, err := s.Capabilities().IDs(t.Context(), keys)
			mu.Lock()
			defer mu.Unlock()
			if want == nil {
				want = ids
			}
			if err != nil || !cmp.Equal(want, ids) {
				t.Errorf("callers do not agree: %v", err)
			}
		})
	}
	all.Wait()
	byID := map[string]store.CapabilityKey{}
	for i, id := range want {
		if k, ok := byID[id]; ok && k != keys[i] {
			t.Errorf("%v and %v share id %s", k, keys[i], id)
		}
		byID[id] = keys[i]
	}
	if len(byID) != 155 {
		t.Errorf("%d ids, want 155", len(byID))
	}
	for i := range 6 {
		if key, ok, err := s.Capabilities().Key(t.Context(), want[i]); err != nil || !ok || key != keys[i] {
			t.Errorf("Key of %.20q = %.20v, %v, %v", keys[i].Original, key, ok, err)
		}
	}
}

func renamedServers(t *testing.T, s *store.Store) {
	c := s.Capabilities()
	ids := func(server string) []string {
		t.Helper()
		all, err := c.IDs(t.Context(), []store.CapabilityKey{{Server: server, Kind: "tool", Original: "a"}, {Server: server, Kind: "tool", Original: "b"}})
		must(t, err)
		return all
	}
	rename := func(from, to string, moved, taken bool) {
		t.Helper()
		if m, k, err := c.Rename(t.Context(), from, to); m != moved || k != taken || err != nil {
			t.Errorf("%s to %s: moved %t, taken %t, %v", from, to, m, k, err)
		}
	}
	rename("old", "new", false, false) // nothing of it is known
	before, other := ids("old"), ids("other")
	must(t, s.Registry().Update(t.Context(), nil, func(map[string]store.RegistryRecord) ([]store.RegistryRecord, error) {
		return []store.RegistryRecord{{
			ID: before[0], Kind: "tool", Server: "old", Original: "a", Name: "old__a", Provider: store.ProviderMCP, Source: "discovery",
			State: store.StateActive, Change: store.Change{Actor: "test"},
		}}, nil
	}))
	must(t, s.Flags().Set(t.Context(), "acme", false, store.Change{Actor: "test"}, before[0]))
	rename("old", "new", true, false)
	if got := ids("new"); !cmp.Equal(got, before) {
		t.Errorf("ids after the rename %v, want %v", got, before)
	}
	if r, ok, err := s.Registry().Get(t.Context(), before[0]); err != nil || !ok || r.Server != "new" {
		t.Errorf("record %+v, %t, %v", r, ok, err)
	}
	rename("old", "new", false, false) // it is done
	rename("other", "new", false, true)
	if got := ids("other"); !cmp.Equal(got, other) {
		t.Errorf("ids of another %v, want %v", got, other)
	}
	if _, _, err := c.Rename(t.Context(), "", "new"); err == nil {
		t.Error("a server without a key is renamed")
	}
}

func meta(t *testing.T, s *store.Store) {
	must(t, s.Meta().Put(t.Context(), "k", []byte{0, 1}))
	must(t, s.Meta().Put(t.Context(), "k", []byte{0, 2}))
	winner, stored, err := s.Meta().PutIfAbsent(t.Context(), "k", []byte("other"))
	if err != nil || stored || !bytes.Equal(winner, []byte{0, 2}) {
		t.Errorf("PutIfAbsent of what is there = %v, %v, %v", winner, stored, err)
	}
	winner, stored, err = s.Meta().PutIfAbsent(t.Context(), "new", nil)
	if err != nil || !stored || len(winner) != 0 {
		t.Errorf("PutIfAbsent of what is not there = %v, %v, %v", winner, stored, err)
	}
}

func rounds(t *testing.T, s *store.Store) {
	until := time.Now().Add(time.Hour)
	firsts := 0
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			first, err := s.Rounds().Use(t.Context(), "call", 1, until)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if first {
				firsts++
			}
		})
	}
	all.Wait()
	if firsts != 1 {
		t.Errorf("%d first uses, want 1", firsts)
	}
}

func viewSeesOneState(t *testing.T, s *store.Store) {
	must(t, s.Meta().Put(t.Context(), "k", []byte("before")))
	if s.Path() == store.Memory {
		return // its one connection cannot write during a view
	}
	err := s.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		var first, second []byte
		if err := tx.QueryRow(ctx, `SELECT value FROM meta WHERE key = ?`, "k").Scan(&first); err != nil {
			return err
		}
		if err := s.Meta().Put(t.Context(), "k", []byte("after")); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT value FROM meta WHERE key = ?`, "k").Scan(&second); err != nil {
			return err
		}
		if string(first) != "before" || string(second) != "before" {
			t.Errorf("one view saw %q and then %q", first, second)
		}
		return nil
	})
	must(t, err)
}

func viewCannotWrite(t *testing.T, s *store.Store) {
	err := s.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM meta")
		if err := tx.Lock(ctx, "x"); !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("Lock = %v, want ErrReadOnly", err)
		}
		return err
	})
	if !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("Exec = %v, want ErrReadOnly", err)
	}
	err = s.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, "DELETE FROM meta RETURNING key") // past Exec's own check
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			t.Error("a view has deleted something")
		}
		return rows.Err()
	})
	if err == nil && s.Path() != store.Memory {
		t.Error("the database let a view write")
	}
}

// put returns a write of one entry.
func put(key string) func(context.Context, *store.Tx) error {
	return func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO meta (key, value, updated_at) VALUES (?, ?, 0)", key, []byte("v"))
		return err
	}
}

func failingWriteFailsAlone(t *testing.T, s *store.Store) {
	own := errors.New("own error")
	writes := map[string]func(context.Context, *store.Tx) error{
		"good": put("good"),
		"own":  func(ctx context.Context, tx *store.Tx) error { return errors.Join(put("own")(ctx, tx), own) },
		"panic": func(ctx context.Context, tx *store.Tx) error {
			panic(put("panic")(ctx, tx))
		},
		"sql": func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO nowhere VALUES (1)")
			return err
		},
		"twice": func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(put("twice")(ctx, tx), put("twice")(ctx, tx))
		},
		"also": put("also"),
	}
	// All in one transaction: the writer is busy while they are queued.
	started, gate := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.Do(context.Background(), func(context.Context, *store.Tx) error {
			select {
			case <-started: // tried again
			default:
				close(started)
			}
			<-gate
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-started
	release := sync.OnceFunc(func() { close(gate) })
	defer release()
	got := map[string]error{}
	var mu sync.Mutex
	for name, fn := range writes {
		all.Go(func() {
			err := s.Do(context.Background(), fn)
			mu.Lock()
			defer mu.Unlock()
			got[name] = err
		})
	}
	waitFor(t, "writes in the queue", func() bool { return s.Stats().Queued == len(writes) })
	release()
	all.Wait()
	for name := range writes {
		good := name == "good" || name == "also"
		if (got[name] == nil) != good {
			t.Errorf("%s: %v", name, got[name])
		}
		if _, ok, err := s.Meta().Get(t.Context(), name); ok != good || err != nil {
			t.Errorf("%s: found %v, %v", name, ok, err)
		}
	}
	if !errors.Is(got["own"], own) {
		t.Errorf("own = %v, want its own error", got["own"])
	}
}

// waitFor returns when ready does.
func waitFor(t *testing.T, what string, ready func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !ready() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited 30 s for %s", what)
		}
	}
}

func restart(t *testing.T, o store.Options) {
	key := store.ApprovalKey{Principal: "p", CapabilityID: "c", ArgsHash: "h"}
	for i := range 3 {
		s, err := store.Open(t.Context(), o)
		must(t, err)
		if o.URL != "" && strings.Contains(s.Path(), "?password") {
			t.Errorf("path %s", s.Path())
		}
		if i > 0 {
			if mode, ok, err := s.Modes().Current(t.Context()); err != nil || !ok || mode.Mode != "m" {
				t.Errorf("mode = %v, %v, %v", mode, ok, err)
			}
			if _, asked, err := s.Approvals().Ask(t.Context(), key, store.ApprovalText{}, time.Now().Add(time.Hour)); err != nil || asked {
				t.Errorf("the question was lost: %v, %v", asked, err)
			}
			if g, err := s.Generation(t.Context(), store.TopicMode); err != nil || g != int64(i) {
				t.Errorf("generation = %d, %v; want %d", g, err, i)
			}
		}
		must(t, s.Modes().Set(t.Context(), "m", by))
		_, _, err = s.Approvals().Ask(t.Context(), key, store.ApprovalText{}, time.Now().Add(time.Hour))
		must(t, err)
		must(t, s.Check(t.Context()))
		must(t, s.Close())
		if o.Path == "" && o.URL == "" {
			return // a store in memory ends here
		}
	}
}
