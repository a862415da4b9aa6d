package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolgate/toolgate/internal/store"
)

func flags(t *testing.T, s *store.Store) {
	f, ctx := s.Flags(), t.Context()
	must(t, f.Set(ctx, "acme", true, by, "b", "a"))
	must(t, f.Set(ctx, "acme", false, store.Change{Actor: "bob"}, "b"))
	must(t, f.Set(ctx, "Acme", false, by, "a"))
	want := []store.FlagRecord{
		{Tenant: "Acme", CapabilityID: "a", Change: by},
		{Tenant: "acme", CapabilityID: "a", Enabled: true, Change: by},
		{Tenant: "acme", CapabilityID: "b", Change: store.Change{Actor: "bob"}},
	}
	for tenant, want := range map[string][]store.FlagRecord{"": want, "acme": want[1:], "none": nil, "\x00": nil} {
		got, generation, err := f.List(ctx, tenant)
		must(t, err)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.FlagRecord{}, "At")); diff != "" || generation != 3 {
			t.Errorf("flags of %q in generation %d (-want +got):\n%s", tenant, generation, diff)
		}
		for _, r := range got {
			recently(t, "flag", r.At)
		}
	}
	for _, want := range []bool{true, false} {
		if ok, err := f.Clear(ctx, "acme", "a"); ok != want || err != nil {
			t.Errorf("Clear = %v, %v; want %v", ok, err, want)
		}
	}
	if got, _, err := f.List(ctx, "acme"); len(got) != 1 || err != nil {
		t.Errorf("after Clear: %v, %v", got, err)
	}
}

func restrictions(t *testing.T, s *store.Store) {
	r, ctx := s.Restrictions(), t.Context()
	must(t, r.Add(ctx, "bot", by, "b", "a"))
	must(t, r.Add(ctx, "bot", store.Change{Actor: "bob", Reason: "why"}, "b"))
	must(t, r.Add(ctx, "cat", by, "a"))
	must(t, r.Allow(ctx, "cat", by, "a", "c"))
	must(t, r.Allow(ctx, "dog", by, "a"))
	must(t, r.Add(ctx, "dog", by, "a")) // what was said last counts
	want := []store.RestrictionRecord{
		{Persona: "bot", CapabilityID: "a", Change: by},
		{Persona: "bot", CapabilityID: "b", Change: store.Change{Actor: "bob", Reason: "why"}},
		{Persona: "cat", CapabilityID: "a", Allowed: true, Change: by},
		{Persona: "cat", CapabilityID: "c", Allowed: true, Change: by},
		{Persona: "dog", CapabilityID: "a", Change: by},
	}
	for persona, want := range map[string][]store.RestrictionRecord{"": want, "bot": want[:2], "none": nil, "\xff": nil} {
		got, generation, err := r.List(ctx, persona)
		must(t, err)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.RestrictionRecord{}, "At")); diff != "" || generation != 6 {
			t.Errorf("restrictions of %q in generation %d (-want +got):\n%s", persona, generation, diff)
		}
	}
	for _, want := range []bool{true, false} {
		if ok, err := r.Remove(ctx, "bot", "a"); ok != want || err != nil {
			t.Errorf("Remove = %v, %v; want %v", ok, err, want)
		}
	}
	if got, _, err := r.List(ctx, "bot"); len(got) != 1 || err != nil {
		t.Errorf("after Remove: %v, %v", got, err)
	}
}

func dynamicOwners(t *testing.T, s *store.Store) {
	d, ctx := s.Dynamic(), t.Context()
	alice := store.Owner{Tenant: "t", Principal: "alice\x00\xff"}
	bob := store.Owner{Tenant: "t", Principal: "bob"}
	want := store.DynamicRecord{Server: "git", Owner: alice, Entry: "github", Arguments: []byte(`{"a":1}`), Change: by}
	if ok, err := d.Add(ctx, want, 5); !ok || err != nil {
		t.Fatal(ok, err)
	}
	other := want
	other.Owner, other.Entry = bob, "gitlab"
	if ok, err := d.Add(ctx, other, 5); ok || err != nil {
		t.Errorf("the key of another = %v, %v; want no", ok, err)
	}
	ignore := cmpopts.IgnoreFields(store.DynamicRecord{}, "CreatedAt", "ChangedAt")
	got, ok, err := d.Get(ctx, "git")
	if diff := cmp.Diff(want, got, ignore); diff != "" || !ok || err != nil {
		t.Errorf("%v, %v, record (-want +got):\n%s", ok, err, diff)
	}
	recently(t, "CreatedAt", got.CreatedAt)
	for _, owner := range []store.Owner{bob, {Tenant: "T", Principal: alice.Principal}, {Tenant: "\x00", Principal: alice.Principal}, {}} {
		if ok, err := d.RemoveOwn(ctx, "git", owner); ok || err != nil {
			t.Errorf("removed by %q: %v, %v", owner, ok, err)
		}
	}
	for _, want := range []bool{true, false} {
		if ok, err := d.Promote(ctx, "git", store.Change{Actor: "op2"}); ok != want || err != nil {
			t.Errorf("Promote = %v, %v; want %v", ok, err, want)
		}
	}
	if ok, err := d.RemoveOwn(ctx, "git", alice); ok || err != nil {
		t.Errorf("a promoted one was removed by its owner: %v, %v", ok, err)
	}
	want.Promoted, want.Change = true, store.Change{Actor: "op2"}
	list, generation, err := d.List(ctx)
	must(t, err)
	if diff := cmp.Diff([]store.DynamicRecord{want}, list, ignore); diff != "" || generation != 2 {
		t.Errorf("generation %d, list (-want +got):\n%s", generation, diff)
	}
	for _, want := range []bool{true, false} {
		if ok, err := d.Remove(ctx, "git"); ok != want || err != nil {
			t.Errorf("Remove = %v, %v; want %v", ok, err, want)
		}
	}
	if ok, err := d.Add(ctx, other, 5); !ok || err != nil {
		t.Errorf("the key was not free again: %v, %v", ok, err)
	}
	if ok, err := d.RemoveOwn(ctx, "git", bob); !ok || err != nil {
		t.Errorf("RemoveOwn = %v, %v", ok, err)
	}
}

func dynamicLimit(t *testing.T, s *store.Store) {
	d, ctx := s.Dynamic(), t.Context()
	added := 0
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			r := store.DynamicRecord{Server: fmt.Sprint("s", i), Owner: store.Owner{Tenant: "t", Principal: "p"}, Entry: "e", Change: by}
			ok, err := d.Add(ctx, r, 3)
			mu.Lock()
			defer mu.Unlock()
			if ok {
				added++
			}
			if ok == (err != nil) || err != nil && !errors.Is(err, store.ErrTooMany) {
				t.Errorf("Add = %v, %v", ok, err)
			}
		})
	}
	all.Wait()
	if list, _, err := d.List(ctx); added != 3 || len(list) != 3 || err != nil {
		t.Errorf("%d added, %d listed, %v; want 3", added, len(list), err)
	}
	r := store.DynamicRecord{Server: "x", Owner: store.Owner{Tenant: "t", Principal: "other"}, Entry: "e", Change: by}
	if _, err := d.Add(ctx, r, 0); !errors.Is(err, store.ErrTooMany) {
		t.Errorf("with no limit given: %v, want ErrTooMany", err)
	}
}

func modes(t *testing.T, s *store.Store) {
	m, ctx := s.Modes(), t.Context()
	if _, ok, err := m.Current(ctx); ok || err != nil {
		t.Errorf("before the first: %v, %v", ok, err)
	}
	if ok, err := m.SetIf(ctx, "", "NORMAL", by); !ok || err != nil {
		t.Errorf("the first, if there is none: %v, %v", ok, err)
	}
	must(t, m.Set(ctx, "LOCKDOWN", store.Change{Actor: "alice", Reason: "attack"}))
	if ok, err := m.SetIf(ctx, "DEGRADED", "NORMAL", by); ok || err != nil {
		t.Errorf("what a person set was overruled: %v, %v", ok, err)
	}
	got, ok, err := m.Current(ctx)
	if err != nil || !ok || got.Mode != "LOCKDOWN" || got.Actor != "alice" || got.Reason != "attack" {
		t.Errorf("Current = %+v, %v, %v", got, ok, err)
	}
	recently(t, "mode", got.At)
	history, err := m.History(ctx, 10)
	if err != nil || len(history) != 2 || history[0] != got || history[1].Mode != "NORMAL" {
		t.Errorf("History = %+v, %v", history, err)
	}
	for _, none := range []int{0, -1} {
		if history, err := m.History(ctx, none); err != nil || len(history) != 0 {
			t.Errorf("%d modes of the history = %v, %v", none, history, err)
		}
	}
	if err := m.Set(ctx, "", by); err == nil {
		t.Error("an empty mode was set")
	}
}

func modeHistory(t *testing.T, s *store.Store) {
	var all sync.WaitGroup
	for i := range 1010 {
		all.Go(func() {
			if err := s.Modes().Set(t.Context(), fmt.Sprint(i), by); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	must(t, s.Modes().Set(t.Context(), "last", by))
	if history, err := s.Modes().History(t.Context(), 5000); err != nil || len(history) != 1000 || history[0].Mode != "last" {
		t.Errorf("%d modes, %v; want 1000", len(history), err)
	}
}

func impossibleNames(t *testing.T, s *store.Store) {
	ctx, long := t.Context(), strings.Repeat("x", 513)
	later := time.Now().Add(time.Hour)
	for _, bad := range []string{"", "\x00", "\xff", long} {
		for name, err := range map[string]error{
			"Flags.Set tenant":     s.Flags().Set(ctx, bad, true, by, "c"),
			"Flags.Set capability": s.Flags().Set(ctx, "t", true, by, bad),
			"Flags.Set actor":      s.Flags().Set(ctx, "t", true, store.Change{Actor: bad}, "c"),
			"Restrictions.Add":     s.Restrictions().Add(ctx, bad, by, "c"),
			"Restrictions.Allow":   s.Restrictions().Allow(ctx, bad, by, "c"),
			"Modes.Set":            s.Modes().Set(ctx, bad, by),
		} {
			if err == nil {
				t.Errorf("%s %.10q: no error", name, bad)
			}
		}
		if _, err := s.Dynamic().Add(ctx, store.DynamicRecord{Server: bad, Owner: store.Owner{Tenant: "t", Principal: "p"}, Entry: "e", Change: by}, 1); err == nil {
			t.Errorf("Dynamic.Add %.10q: no error", bad)
		}
		if _, _, err := s.Approvals().Ask(ctx, store.ApprovalKey{Principal: "p", CapabilityID: bad, ArgsHash: "h"}, store.ApprovalText{}, later); err == nil {
			t.Errorf("Approvals.Ask %.10q: no error", bad)
		}
		if _, err := s.Capabilities().IDs(ctx, []store.CapabilityKey{{Server: bad, Kind: "tool", Original: "o"}}); err == nil {
			t.Errorf("Capabilities.IDs %.10q: no error", bad)
		}
		// Nothing has such a name, which is no error.
		if ok, err := s.Flags().Clear(ctx, bad, bad); ok || err != nil {
			t.Errorf("Flags.Clear %.10q = %v, %v", bad, ok, err)
		}
		if _, ok, err := s.Dynamic().Get(ctx, bad); ok || err != nil {
			t.Errorf("Dynamic.Get %.10q = %v, %v", bad, ok, err)
		}
		if _, ok, err := s.Approvals().Get(ctx, bad); ok || err != nil {
			t.Errorf("Approvals.Get %.10q = %v, %v", bad, ok, err)
		}
	}
}
