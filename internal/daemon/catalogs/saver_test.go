package catalogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/upstream"
)

// offered are tools as a server lists them.
var offered = []string{
	`{"name":"pid","description":"Waits for nothing.","inputSchema":{"type":"object"},"x-own": 9007199254740993}`,
	`{"name":"slow","inputSchema":{"type":"object","properties":{"n":{"maximum":12345678901234567890}}}}`,
}

// listed is a server that lists its tools.
func listed(spec *upstream.Spec) []Listed {
	l := &mcp.Listing{Items: make(map[mcp.Kind][]mcp.Item)}
	for _, raw := range offered {
		name, _ := mcp.LookupString([]byte(raw), "name")
		l.Items[mcp.Tool] = append(l.Items[mcp.Tool], mcp.Item{Key: name, Raw: []byte(raw)})
	}
	return []Listed{{Spec: *spec, Listings: map[string]*mcp.Listing{"": l}}}
}

// newSaver returns the saver of an empty store that runs as long as the test.
func newSaver(t *testing.T) *Saver {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }() // ends with the cleanup
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	})
	keys, err := seal.NewKeyring(seal.Key{ID: "local", Secret: bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	return NewSaver(s, keys, log)
}

func TestCatalogsAreGenuineOrNotServed(t *testing.T) {
	t.Parallel()
	c := newSaver(t)
	a, b := upstream.Spec{Key: "a", Command: "a", Args: []string{"one"}}, upstream.Spec{Key: "b", Command: "b"}
	c.save(t.Context(), listed(&a))
	kept := c.Load(t.Context(), &a, "")
	if kept == nil {
		t.Fatal("nothing was saved")
	}
	for i, want := range offered {
		if got := kept.Items[mcp.Tool][i].Raw; string(got) != want {
			t.Errorf("tool %d\n got %s\nwant %s", i, got, want)
		}
	}
	good, ok, err := c.store.Catalogs().Load(t.Context(), "a", sharedCredential, a.Hash())
	if err != nil || !ok {
		t.Fatalf("load: %v, %v", ok, err)
	}
	changed := a
	changed.Args = append([]string{}, append(changed.Args, "more")...)
	foreign, err := seal.NewKeyring(seal.Key{ID: "local", Secret: bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	resign := func(keys *seal.Keyring, purpose string, r *store.CatalogRecord) {
		r.MAC = keys.MAC(purpose, authenticated(r))
	}
	tests := []struct {
		name   string
		spec   *upstream.Spec
		change func(*store.CatalogRecord)
		served bool
	}{
		{"as it was", &a, func(*store.CatalogRecord) {}, true},
		{"signed anew", &a, func(r *store.CatalogRecord) { resign(c.keys, purpose, r) }, true},
		{"one byte of the body", &a, func(r *store.CatalogRecord) {
			r.Body = bytes.Replace(r.Body, []byte("Waits for"), []byte("Obeys the"), 1)
		}, false},
		{"no MAC", &a, func(r *store.CatalogRecord) { r.MAC = nil }, false},
		{"short MAC", &a, func(r *store.CatalogRecord) { r.MAC = r.MAC[:16] }, false},
		{"one bit of the MAC", &a, func(r *store.CatalogRecord) { r.MAC = append([]byte{r.MAC[0] ^ 1}, r.MAC[1:]...) }, false},
		{"of another server", &b, func(r *store.CatalogRecord) { r.Server, r.Spec = "b", b.Hash() }, false},
		{"of another specification", &changed, func(r *store.CatalogRecord) { r.Spec = changed.Hash() }, false},
		{"made younger", &a, func(r *store.CatalogRecord) { r.SavedAt = r.SavedAt.Add(time.Hour) }, false},
		{"with an unknown key", &a, func(r *store.CatalogRecord) { resign(foreign, purpose, r) }, false},
		{"for another purpose", &a, func(r *store.CatalogRecord) { resign(c.keys, "audit", r) }, false},
		{"genuine and no catalog", &a, func(r *store.CatalogRecord) { r.Body = []byte("{"); resign(c.keys, purpose, r) }, false},
		{"genuine and 31 days old", &a, func(r *store.CatalogRecord) {
			r.SavedAt = time.Now().Add(-31 * 24 * time.Hour)
			resign(c.keys, purpose, r)
		}, false},
	}
	for _, tt := range tests {
		record := good
		tt.change(&record)
		if err := c.store.Catalogs().Delete(t.Context(), record.Server); err != nil {
			t.Fatal(err)
		}
		if err := c.store.Catalogs().Save(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if l := c.Load(t.Context(), tt.spec, ""); (l != nil) != tt.served {
			t.Errorf("%s: served %v, want %v", tt.name, l != nil, tt.served)
		}
	}
	if l := c.Load(t.Context(), &changed, ""); l != nil {
		t.Error("a catalog of other arguments is served")
	}
}

func TestAuthenticatedIsInjective(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	seen := map[string]store.CatalogRecord{}
	for _, r := range []store.CatalogRecord{
		{Server: "ab", Credential: "c", SavedAt: now},
		{Server: "a", Credential: "bc", SavedAt: now},
		{Server: "a", Credential: "b", Spec: "c", SavedAt: now},
		{Server: "a", Credential: "b", Body: []byte("c"), SavedAt: now},
		{Server: "ab", Credential: "c", SavedAt: now.Add(1)},
	} {
		key := string(authenticated(&r))
		if other, ok := seen[key]; ok {
			t.Errorf("%+v and %+v have the same bytes", r, other)
		}
		seen[key] = r
	}
}

// A saver that ends right after a server has listed saves its catalog.
func TestTheEndSaves(t *testing.T) {
	t.Parallel()
	c := newSaver(t)
	a := upstream.Spec{Key: "a", Command: "a"}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Run(over, func() []Listed { return listed(&a) }); err != nil {
		t.Fatal(err)
	}
	if c.Load(t.Context(), &a, "") == nil {
		t.Error("nothing was saved")
	}
}

// A catalog that could not be saved is tried again; what was saved is not.
func TestSaveIsTriedAgain(t *testing.T) {
	t.Parallel()
	c := newSaver(t)
	a := upstream.Spec{Key: "a", Command: "a"}
	list := listed(&a)
	open := c.store
	c.store = nil // refuses everything
	c.save(t.Context(), list)
	c.store = open
	if c.Load(t.Context(), &a, "") != nil {
		t.Fatal("saved although it could not be")
	}
	c.save(t.Context(), list)
	first, ok, err := c.store.Catalogs().Load(t.Context(), "a", sharedCredential, a.Hash())
	if err != nil || !ok {
		t.Fatalf("not saved the second time: %v", err)
	}
	c.save(t.Context(), list)
	again, _, err := c.store.Catalogs().Load(t.Context(), "a", sharedCredential, a.Hash())
	if err != nil || !first.SavedAt.Equal(again.SavedAt) {
		t.Errorf("saved twice: %v and %v, %v", first.SavedAt, again.SavedAt, err)
	}
}

// A server that was waited for in vain is not waited for again, as long as it is
// configured as it was.
func TestUnansweredServers(t *testing.T) {
	t.Parallel()
	kept, spec := NewUnanswered(newSaver(t).store.Meta(), slog.New(slog.DiscardHandler)), upstream.Spec{Key: "mute", Command: "mute"}
	if kept.Has(t.Context(), &spec) {
		t.Error("a server that was never started is not waited for")
	}
	kept.Note(t.Context(), []upstream.Spec{spec})
	if !kept.Has(t.Context(), &spec) {
		t.Error("the next start waits for it")
	}
	if spec.Args = []string{"other"}; kept.Has(t.Context(), &spec) {
		t.Error("it is not waited for as another one")
	}
}

// A thousand catalogs are saved together, and one that cannot be saved keeps none of the others
// from it.
func TestManyAreSaved(t *testing.T) {
	t.Parallel()
	c := newSaver(t)
	var all []Listed
	for i := range 1000 {
		all = append(all, listed(&upstream.Spec{Key: fmt.Sprintf("s%d", i), Command: "a"})...)
	}
	all[100].Spec.Key = "" // which no store takes
	c.save(t.Context(), all)
	for i := range all {
		if got := c.Load(t.Context(), &all[i].Spec, ""); (got != nil) != (i != 100) {
			t.Errorf("the catalog %d is there: %t", i, got != nil)
		}
	}
	if len(c.saved) != 999 {
		t.Errorf("%d are noted as saved", len(c.saved))
	}
}
