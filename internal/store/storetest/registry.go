package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolgate/toolgate/internal/store"
)

// record returns a record with a value in every field.
func record(id string) store.RegistryRecord {
	return store.RegistryRecord{
		ID: id, Kind: "tool", Server: "files", Original: "read " + id, Name: "files__read_" + id,
		DisplayName: "Read", Description: "Reads a file.", Category: "io",
		Schema: []byte(`{"type":"object"}`), Config: []byte(`{"a":1}`), Enabled: true,
		Provider: store.ProviderMCP, Source: "discovery",
		Class: store.Class{Risk: "low", ReadOnly: new(true), Destructive: new(false)},
		State: store.StateHeld, Definition: []byte(`{"name":"read"}`), DefinitionHash: "def", AcceptedHash: "def",
		HeldDefinition: []byte(`{"name":"read","x":9007199254740993}`), HeldHash: "held", Flagged: []string{"changed", `"odd"`},
		Change: by,
	}
}

// ignoreTimes ignores the times that the store sets.
var ignoreTimes = cmpopts.IgnoreFields(store.RegistryRecord{}, "FirstSeen", "ChangedAt")

func registryKeepsEverything(t *testing.T, s *store.Store) {
	r, ctx := s.Registry(), t.Context()
	bare := store.RegistryRecord{
		ID: "cap_b", Kind: "prompt", Server: "s", Original: "o", Name: "n",
		Provider: store.ProviderNative, Source: "seed", State: store.StateActive, Change: store.Change{Actor: "seed"},
	}
	want := []store.RegistryRecord{record("cap_a"), bare}
	must(t, r.Upsert(ctx, []store.RegistryRecord{bare, want[0]}))
	got, generation, err := r.List(ctx, store.RegistryFilter{})
	must(t, err)
	if diff := cmp.Diff(want, got, ignoreTimes); diff != "" || generation != 1 {
		t.Errorf("generation %d, records (-want +got):\n%s", generation, diff)
	}
	first := got[0]
	recently(t, "FirstSeen", first.FirstSeen)
	recently(t, "ChangedAt", first.ChangedAt)

	changed := record("cap_a")
	changed.Description, changed.FirstSeen, changed.Flagged = "Reads.", time.Now().Add(time.Hour), nil
	must(t, r.Upsert(ctx, []store.RegistryRecord{changed}))
	one, ok, err := r.Get(ctx, "cap_a")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if diff := cmp.Diff(changed, one, ignoreTimes); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}
	if !one.FirstSeen.Equal(first.FirstSeen) || one.ChangedAt.Before(first.ChangedAt) {
		t.Errorf("first seen %v, changed %v; was %v, %v", one.FirstSeen, one.ChangedAt, first.FirstSeen, first.ChangedAt)
	}
	if n, err := r.Delete(ctx, "cap_a", "cap_none", "cap_\x00"); n != 1 || err != nil {
		t.Errorf("Delete = %d, %v; want 1", n, err)
	}
	if _, ok, err := r.Get(ctx, "cap_a"); ok || err != nil {
		t.Errorf("after Delete: %v, %v", ok, err)
	}
}

// Foreign bytes must not keep an item, or others, out of the registry.
func registryForeignNames(t *testing.T, s *store.Store) {
	want := record("cap_a")
	want.Original, want.Name = "nul\x00 \xff", "files+x://\x00\xfe?$1'\\x41"
	given := want
	given.DisplayName, given.Description, given.Category = "a\x00b", "c\xffd", "\x00"
	want.DisplayName, want.Description, want.Category = "a\uFFFDb", "c\uFFFDd", "\uFFFD"
	must(t, s.Registry().Upsert(t.Context(), []store.RegistryRecord{given}))
	got, ok, err := s.Registry().Get(t.Context(), "cap_a")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if diff := cmp.Diff(want, got, ignoreTimes); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

func registryFilters(t *testing.T, s *store.Store) {
	records := []store.RegistryRecord{record("cap_a"), record("cap_b"), record("cap_c"), record("cap_d")}
	records[1].Server, records[2].Kind, records[3].State = "git", "prompt", store.StateOrphaned
	must(t, s.Registry().Upsert(t.Context(), records))
	for want, f := range map[string]store.RegistryFilter{
		"a b c d": {},
		"a c d":   {Server: "files"},
		"a b d":   {Kind: "tool"},
		"a b c":   {State: store.StateHeld},
		"a":       {Server: "files", Kind: "tool", State: store.StateHeld},
		"":        {Server: "FILES"},
	} {
		got, _, err := s.Registry().List(t.Context(), f)
		must(t, err)
		var ids []string
		for _, r := range got {
			ids = append(ids, strings.TrimPrefix(r.ID, "cap_"))
		}
		if strings.Join(ids, " ") != want {
			t.Errorf("%+v: %v, want %s", f, ids, want)
		}
	}
	if got, _, err := s.Registry().List(t.Context(), store.RegistryFilter{Server: "\x00"}); len(got) != 0 || err != nil {
		t.Errorf("an impossible server: %v, %v", got, err)
	}
}

func registryMany(t *testing.T, s *store.Store) {
	var records []store.RegistryRecord
	for i := range 1000 {
		records = append(records, record(fmt.Sprintf("cap_%04d", i)))
	}
	must(t, s.Registry().Upsert(t.Context(), records))
	got, generation, err := s.Registry().List(t.Context(), store.RegistryFilter{})
	if err != nil || len(got) != 1000 || generation != 1 || got[999].ID != "cap_0999" {
		t.Errorf("%d records in generation %d, %v", len(got), generation, err)
	}
	records[500].Provider = "none"
	records[0].Name = "changed"
	if err := s.Registry().Upsert(t.Context(), records); err == nil {
		t.Error("a bad record was written")
	}
	if one, _, err := s.Registry().Get(t.Context(), "cap_0000"); err != nil || one.Name == "changed" {
		t.Errorf("a part was written: %q, %v", one.Name, err)
	}
}

// Callers that read, decide and write must not undo each other's changes.
func registryUpdate(t *testing.T, s *store.Store) {
	ctx := context.Background()
	must(t, s.Registry().Upsert(ctx, []store.RegistryRecord{record("cap_a")}))
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			err := s.Registry().Update(ctx, []string{"cap_a", "cap_new"}, func(existing map[string]store.RegistryRecord) ([]store.RegistryRecord, error) {
				one, ok := existing["cap_a"]
				if _, other := existing["cap_new"]; !ok || other || len(existing) != 1 {
					return nil, fmt.Errorf("update got %v", existing)
				}
				one.Flagged = append(one.Flagged, fmt.Sprint(i))
				return []store.RegistryRecord{one}, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	one, _, err := s.Registry().Get(ctx, "cap_a")
	if err != nil || len(one.Flagged) != 22 {
		t.Errorf("%d reasons, %v; want 22", len(one.Flagged), err)
	}
	own := errors.New("own")
	if err := s.Registry().Update(ctx, nil, func(map[string]store.RegistryRecord) ([]store.RegistryRecord, error) { return nil, own }); !errors.Is(err, own) {
		t.Errorf("Update = %v, want its function's error", err)
	}
}

func registrySetters(t *testing.T, s *store.Store) {
	r, ctx := s.Registry(), t.Context()
	must(t, r.Upsert(ctx, []store.RegistryRecord{record("cap_a"), record("cap_b")}))
	who := store.Change{Actor: "alice", Reason: "too dangerous"}
	class := store.Class{Risk: "high", HighCost: new(true)}
	for name, set := range map[string]func(id string) (bool, error){
		"SetEnabled": func(id string) (bool, error) { return r.SetEnabled(ctx, id, false, who) },
		"SetClass":   func(id string) (bool, error) { return r.SetClass(ctx, id, class, who) },
	} {
		if ok, err := set("cap_a"); !ok || err != nil {
			t.Errorf("%s = %v, %v", name, ok, err)
		}
		for _, none := range []string{"cap_none", "cap_\x00"} {
			if ok, err := set(none); ok || err != nil {
				t.Errorf("%s of what is not there = %v, %v", name, ok, err)
			}
		}
	}
	want := []store.RegistryRecord{record("cap_a"), record("cap_b")}
	want[0].Enabled, want[0].Class, want[0].Change = false, class, who
	got, _, err := r.List(ctx, store.RegistryFilter{})
	must(t, err)
	if diff := cmp.Diff(want, got, ignoreTimes); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if ok, err := r.SetEnabled(ctx, "cap_a", true, store.Change{}); ok || err == nil {
		t.Error("a change without an actor was made")
	}
}

// What was registered at run time and is gone leaves nothing behind, unless a person has
// decided about it.
func registryPrune(t *testing.T, s *store.Store) {
	r, ctx := s.Registry(), t.Context()
	names := []string{"gone", "other source", "served", "of a server", "classed", "flagged", "restricted"}
	keys := make([]store.CapabilityKey, len(names))
	for i, name := range names {
		keys[i] = store.CapabilityKey{Server: "dynamic-a", Kind: "tool", Original: name}
	}
	ids, err := s.Capabilities().IDs(ctx, keys)
	must(t, err)
	records := make([]store.RegistryRecord, len(names))
	for i := range names {
		records[i] = record(ids[i])
		records[i].Original, records[i].Server, records[i].Source = names[i], "dynamic-a", "dynamic"
		records[i].State, records[i].Provider, records[i].Class = store.StateOrphaned, store.ProviderNative, store.Class{}
		records[i].AcceptedHash, records[i].DefinitionHash, records[i].Definition = "x", "x", []byte("{}")
	}
	records[1].Source, records[2].State, records[3].Provider, records[4].Class.Risk = "operator", store.StateActive, store.ProviderMCP, "high"
	must(t, r.Upsert(ctx, records))
	must(t, s.Flags().Set(ctx, "acme", false, by, ids[5]))
	must(t, s.Restrictions().Add(ctx, "intern", by, ids[6]))
	_, before, err := r.List(ctx, store.RegistryFilter{})
	must(t, err)
	if n, err := r.Prune(ctx, "dynamic"); n != 1 || err != nil {
		t.Errorf("%d are gone, %v", n, err)
	}
	left, after, err := r.List(ctx, store.RegistryFilter{})
	must(t, err)
	if len(left) != len(names)-1 || slices.ContainsFunc(left, func(r store.RegistryRecord) bool { return r.ID == ids[0] }) || after == before {
		t.Errorf("%d are left of %d, generations %d and %d", len(left), len(names), before, after)
	}
	if history, err := r.History(ctx, ids[0]); len(history) != 0 || err != nil {
		t.Errorf("a history of what is gone: %v, %v", history, err)
	}
	if _, ok, err := s.Capabilities().Key(ctx, ids[0]); ok || err != nil {
		t.Errorf("the id of what is gone is still issued, %v", err)
	}
	if n, err := r.Prune(ctx, "dynamic"); n != 0 || err != nil {
		t.Errorf("once more: %d, %v", n, err)
	}
	if n, err := r.Prune(ctx, "\xff"); n != 0 || err != nil {
		t.Errorf("no text: %d, %v", n, err)
	}
}

func registryRefuses(t *testing.T, s *store.Store) {
	for name, spoil := range map[string]func(r *store.RegistryRecord){
		"no id":          func(r *store.RegistryRecord) { r.ID = "" },
		"id":             func(r *store.RegistryRecord) { r.ID = "\xff" },
		"kind":           func(r *store.RegistryRecord) { r.Kind = "" },
		"server":         func(r *store.RegistryRecord) { r.Server = strings.Repeat("x", 513) },
		"original":       func(r *store.RegistryRecord) { r.Original = "" },
		"provider":       func(r *store.RegistryRecord) { r.Provider = "" },
		"state":          func(r *store.RegistryRecord) { r.State = "new" },
		"risk":           func(r *store.RegistryRecord) { r.Class.Risk = "\x00" },
		"definition":     func(r *store.RegistryRecord) { r.Definition = make([]byte, 4<<20+1) },
		"config":         func(r *store.RegistryRecord) { r.Config = make([]byte, 64<<10+1) },
		"reasons":        func(r *store.RegistryRecord) { r.Flagged = make([]string, 65) },
		"no actor":       func(r *store.RegistryRecord) { r.Actor = "" },
		"reason":         func(r *store.RegistryRecord) { r.Reason = strings.Repeat("x", 4<<10+1) },
		"reason is text": func(r *store.RegistryRecord) { r.Reason = "\x00" },
	} {
		r := record("cap_a")
		spoil(&r)
		if err := s.Registry().Upsert(t.Context(), []store.RegistryRecord{r}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := s.Registry().Upsert(t.Context(), []store.RegistryRecord{record("cap_a"), record("cap_a")}); err == nil {
		t.Error("one id twice: no error")
	}
	if got, generation, err := s.Registry().List(t.Context(), store.RegistryFilter{}); len(got) != 0 || generation != 0 || err != nil {
		t.Errorf("%d records in generation %d, %v; want none", len(got), generation, err)
	}
}
