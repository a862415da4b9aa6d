package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/store"
)

func TestCatalogComesBackAsItWasSaved(t *testing.T) {
	c := open(t, store.Options{}).Catalogs()
	at := time.Now().Add(-time.Hour).In(time.FixedZone("x", 3600))
	want := store.CatalogRecord{Server: "files", Credential: "cred", Spec: "s1", Body: []byte{0, 0xff, '{'}, MAC: []byte{1}, SavedAt: at}
	other := want
	other.Spec, other.Body = "s2", []byte("other")
	for _, r := range []store.CatalogRecord{{Server: "files", Credential: "cred", Spec: "s1", SavedAt: at}, want, other} {
		if err := c.Save(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	got, ok, err := c.Load(t.Context(), "files", "cred", "s1")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	want.SavedAt = at.UTC().Round(0)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	for _, key := range [][3]string{{"Files", "cred", "s1"}, {"files", "", "s1"}, {"files", "cred", "s3"}} {
		if _, ok, err := c.Load(t.Context(), key[0], key[1], key[2]); ok || err != nil {
			t.Errorf("%v: found %v, error %v; want nothing", key, ok, err)
		}
	}
	if err := c.Delete(t.Context(), "files"); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := c.Load(t.Context(), "files", "cred", "s2"); ok || err != nil {
		t.Errorf("after Delete: found %v, error %v", ok, err)
	}
}

func TestCatalogIsServedFor30Days(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, store.Options{}).Catalogs()
		if err := c.Save(t.Context(), store.CatalogRecord{Server: "files", Spec: "s", SavedAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			after   time.Duration
			found   bool
			removed int64
		}{{30 * 24 * time.Hour, true, 0}, {time.Nanosecond, false, 1}} {
			time.Sleep(step.after)
			if _, ok, err := c.Load(t.Context(), "files", "", "s"); ok != step.found || err != nil {
				t.Errorf("found %v, error %v; want %v", ok, err, step.found)
			}
			if n, err := c.Prune(t.Context()); n != step.removed || err != nil {
				t.Errorf("removed %d, error %v; want %d", n, err, step.removed)
			}
		}
	})
}

func TestBadCatalogIsRefused(t *testing.T) {
	c := open(t, store.Options{}).Catalogs()
	now := time.Now()
	for name, r := range map[string]store.CatalogRecord{
		"no server": {Spec: "s", SavedAt: now},
		"no spec":   {Server: "a", SavedAt: now},
		"no time":   {Server: "a", Spec: "s"},
	} {
		if err := c.Save(t.Context(), r); err == nil {
			t.Errorf("%s: saved", name)
		}
	}
	big := store.CatalogRecord{Server: "a", Spec: "s", SavedAt: now, Body: make([]byte, 64<<20+1)}
	if err := c.Save(t.Context(), big); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("a body above the limit: %v, want ErrTooLarge", err)
	}
}

func TestCapabilityIDsAreIssuedOnceAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, store.Options{Path: path})
	a := store.CapabilityKey{Server: "files", Kind: "tool", Original: "read"}
	b := store.CapabilityKey{Server: "files", Kind: "prompt", Original: "read"}
	odd := store.CapabilityKey{Server: "files", Kind: "resource", Original: "nul\x00 and \xff bytes"}
	first, err := s.Capabilities().IDs(t.Context(), []store.CapabilityKey{a, b, a, odd})
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`^cap_[a-z2-7]{26}$`)
	for _, id := range first {
		if !form.MatchString(id) {
			t.Errorf("id %q does not match %s", id, form)
		}
	}
	if first[0] != first[2] || first[0] == first[1] || first[1] == first[3] {
		t.Errorf("ids %q: want equal for equal keys only", first)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, store.Options{Path: path})
	fresh := store.CapabilityKey{Server: "files", Kind: "tool", Original: "READ"}
	again, err := s.Capabilities().IDs(t.Context(), []store.CapabilityKey{odd, fresh, b, a})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{first[3], again[1], first[1], first[0]}, again); diff != "" {
		t.Errorf("ids after a restart (-want +got):\n%s", diff)
	}
	if again[1] == first[0] {
		t.Error("names that differ in case share an id")
	}
	key, ok, err := s.Capabilities().Key(t.Context(), first[3])
	if err != nil || !ok || key != odd {
		t.Errorf("Key = %+v, %v, %v; want %+v", key, ok, err, odd)
	}
	if _, ok, err := s.Capabilities().Key(t.Context(), "cap_unknown"); ok || err != nil {
		t.Errorf("unknown id: found %v, error %v", ok, err)
	}
}

func TestCapabilityIDsAreTheSameForEveryone(t *testing.T) {
	s := open(t, store.Options{Path: filepath.Join(t.TempDir(), "store.db")})
	run(t, s)
	keys := make([]store.CapabilityKey, 200)
	for i := range keys {
		keys[i] = store.CapabilityKey{Server: "s", Kind: "tool", Original: fmt.Sprint(i)}
	}
	results := make([][]string, 8)
	var wg sync.WaitGroup
	for g := range results {
		wg.Go(func() {
			ids, err := s.Capabilities().IDs(t.Context(), keys)
			if err != nil {
				t.Error(err)
			}
			results[g] = ids
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, id := range results[0] {
		seen[id] = true
	}
	if len(seen) != len(keys) {
		t.Errorf("%d different ids for %d keys", len(seen), len(keys))
	}
	for g, ids := range results {
		if diff := cmp.Diff(results[0], ids); diff != "" {
			t.Errorf("caller %d (-first +got):\n%s", g, diff)
		}
	}
}

func TestBadCapabilityKeyIssuesNothing(t *testing.T) {
	s := open(t, store.Options{})
	good := store.CapabilityKey{Server: "s", Kind: "tool", Original: "t"}
	for name, bad := range map[string]store.CapabilityKey{
		"no server":   {Kind: "tool", Original: "t"},
		"no kind":     {Server: "s", Original: "t"},
		"no original": {Server: "s", Kind: "tool"},
		"too large":   {Server: "s", Kind: "tool", Original: string(make([]byte, 64<<10))},
	} {
		before := s.Stats().Writes
		if _, err := s.Capabilities().IDs(t.Context(), []store.CapabilityKey{good, bad}); err == nil {
			t.Errorf("%s: no error", name)
		}
		if s.Stats().Writes != before {
			t.Errorf("%s: something was written", name)
		}
	}
	if ids, err := s.Capabilities().IDs(t.Context(), nil); err != nil || len(ids) != 0 {
		t.Errorf("no keys: %v, %v", ids, err)
	}
}

func TestMetaKeepsTheFirstOfPutIfAbsent(t *testing.T) {
	s := open(t, store.Options{})
	run(t, s)
	const callers = 16
	winners := make([][]byte, callers)
	var stores int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			winner, stored, err := s.Meta().PutIfAbsent(t.Context(), "seal/key_id", []byte{byte(i)})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			winners[i] = winner
			if stored {
				stores++
			}
		})
	}
	wg.Wait()
	if stores != 1 {
		t.Errorf("%d callers stored, want 1", stores)
	}
	for _, w := range winners {
		if !bytes.Equal(w, winners[0]) {
			t.Errorf("callers do not agree: %v", winners)
		}
	}
}

func TestMetaLimits(t *testing.T) {
	m := open(t, store.Options{}).Meta()
	for name, tc := range map[string]struct {
		key   string
		value []byte
		want  error
	}{
		"long key":    {key: string(make([]byte, 257)), want: store.ErrTooLarge},
		"large value": {key: "k", value: make([]byte, 64<<10+1), want: store.ErrTooLarge},
		"at limit":    {key: "k", value: make([]byte, 64<<10)},
		"nil value":   {key: "nil"},
	} {
		if err := m.Put(t.Context(), tc.key, tc.value); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	if err := m.Put(t.Context(), "", nil); err == nil {
		t.Error("an empty key was accepted")
	}
	if v, ok, err := m.Get(t.Context(), "nil"); !ok || err != nil || len(v) != 0 {
		t.Errorf("nil value: %v, %v, %v; want an empty one", v, ok, err)
	}
}

// A round is used once, through any handle and after a restart too, until it expires.
func TestRoundsAreUsedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, store.Options{Path: path})
	until := time.Now().Add(time.Hour)
	var all sync.WaitGroup
	var firsts atomic.Int32
	for range 8 {
		all.Go(func() {
			first, err := s.Rounds().Use(t.Context(), "call-1", 1, until)
			if err != nil {
				t.Error(err)
			}
			if first {
				firsts.Add(1)
			}
		})
	}
	all.Wait()
	if firsts.Load() != 1 {
		t.Errorf("%d first uses, want 1", firsts.Load())
	}
	use := func(s *store.Store, call string, round int, until time.Time) bool {
		t.Helper()
		first, err := s.Rounds().Use(t.Context(), call, round, until)
		if err != nil {
			t.Fatal(err)
		}
		return first
	}
	if !use(s, "call-1", 2, until) || !use(s, "call-2", 1, time.Now().Add(-time.Second)) {
		t.Error("another round and another call are not new")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, store.Options{Path: path})
	if use(s, "call-1", 1, until) || use(s, "call-1", 2, until) {
		t.Error("after a restart a used round is new")
	}
	if !use(s, "call-2", 1, until) {
		t.Error("a round that has expired is still remembered")
	}
	if _, err := new(store.Rounds).Use(t.Context(), "c", 1, until); !errors.Is(err, store.ErrClosed) {
		t.Errorf("the zero Rounds: %v", err)
	}
}
