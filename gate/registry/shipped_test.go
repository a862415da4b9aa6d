package registry_test

import (
	"testing"

	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/store"
)

func shipping(s registry.Rules) registry.Rules {
	s.Shipped = registry.NewShipped(map[string]string{"a": "mcp-server-git", "b": "something-else"})
	return s
}

func (r *rig) entry(t *testing.T, name string) registry.Entry {
	t.Helper()
	e, err := r.Entry(t.Context(), name, "")
	must(t, err)
	return e
}

// What is shipped describes the tools of a program that it knows, and nothing else.
func TestShippedDescribes(t *testing.T) {
	t.Parallel()
	r := newRig(t, shipping(open))
	r.list(t, offer(t, "a", tool("git_status"), tool("git_reset"), tool("unknown")), offer(t, "b", tool("git_status")))
	for name, want := range map[string]registry.Entry{
		"a__git_status": {Source: registry.SourceShipped, Category: "code", Said: registry.Class(registry.ClassReadOnly, "low", nil)},
		"a__git_reset":  {Source: registry.SourceShipped, Category: "code", Said: registry.Class(registry.ClassDestructive, "medium", nil)},
		"a__unknown":    {Source: registry.SourceDiscovery},
		"b__git_status": {Source: registry.SourceDiscovery},
	} {
		e := r.entry(t, name)
		if e.Source != want.Source || e.Category != want.Category || !sameClass(e.Said, want.Said) || e.Decided || !e.Enabled {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if c := r.Class(r.id(t, "a__git_status")); !c.ReadOnly || c.Risk != "low" {
		t.Errorf("class: %+v", c)
	}
}

func sameClass(a, b store.Class) bool {
	same := func(a, b *bool) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
	return a.Risk == b.Risk && same(a.ReadOnly, b.ReadOnly) && same(a.Destructive, b.Destructive) && same(a.HighCost, b.HighCost)
}

// What is shipped opens nothing: what is disabled, held or looks misleading stays so, also
// when the operator changes his mind later.
func TestShippedOpensNothing(t *testing.T) {
	t.Parallel()
	s := shipping(closed)
	s.OnNew = registry.Hold
	r := newRig(t, s)
	r.list(t, offer(t, "a", tool("git_status"), tool("git_log", poison)))
	r.expect(t, "new", "a", "git_status", isHeld)
	r.expect(t, "misleading", "a", "git_log", isHeld)

	s = shipping(open)
	r = newRig(t, s)
	r.list(t, offer(t, "a", tool("git_status")))
	r.expect(t, "enabled by default", "a", "git_status", "pass")
	s.DefaultEnabled = false
	r.Configure(s)
	r.expect(t, "disabled by default", "a", "git_status", isDisabled)
}

// The operator wins: his seed, his category, and what he has decided before or afterwards.
func TestShippedGivesWay(t *testing.T) {
	t.Parallel()
	no := false
	s := seeded(shipping(open),
		registry.SeedEntry{Name: "a__git_status", Category: "mine", Risk: "high"},
		registry.SeedEntry{Name: "a__git_log", Enabled: &no},
	)
	r := newRig(t, s)
	r.list(t, offer(t, "a", tool("git_status"), tool("git_log")))
	e := r.entry(t, "a__git_status")
	if e.Category != "mine" || e.Said.Risk != "high" || e.Said.ReadOnly == nil || !*e.Said.ReadOnly {
		t.Errorf("a seed that says a part of it: %+v", e)
	}
	if e := r.entry(t, "a__git_log"); e.Enabled || e.Source != registry.SourceSeed || e.Category != "code" {
		t.Errorf("a seed that decides: %+v", e)
	}

	// A catalog that was there before is described once, where nobody has decided.
	r = newRig(t, open)
	of := offer(t, "a", tool("git_status"), tool("git_log"), tool("git_diff"))
	r.list(t, of)
	must(t, r.SetEnabled(t.Context(), r.id(t, "a__git_log"), false, r.by))
	must(t, r.SetClass(t.Context(), r.id(t, "a__git_diff"), registry.Class(registry.ClassWrite, "high", nil), r.by))
	next := rigOn(t, r.store, shipping(open))
	next.list(t, of)
	if e := next.entry(t, "a__git_log"); e.Source != registry.SourceOperator || e.Category != "" || e.Enabled {
		t.Errorf("what a person has disabled: %+v", e)
	}
	if e := next.entry(t, "a__git_diff"); !sameClass(e.Said, registry.Class(registry.ClassWrite, "high", nil)) || e.Category != "code" || e.Change.Actor != "alice" {
		t.Errorf("what a person has classed: %+v", e)
	}
	e = next.entry(t, "a__git_status")
	if e.Source != registry.SourceShipped || e.Category != "code" {
		t.Errorf("what nobody has touched: %+v", e)
	}
	must(t, next.SetClass(t.Context(), e.ID, store.Class{}, next.by))
	last := rigOn(t, r.store, shipping(open))
	last.list(t, of)
	if e := last.entry(t, "a__git_status"); !sameClass(e.Said, store.Class{}) {
		t.Errorf("what a person has taken back comes again: %+v", e)
	}
}
