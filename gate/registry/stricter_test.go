package registry_test

import (
	"testing"

	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/store"
)

// Gateways that share a store go by the strictest settings of all, in whichever
// order they come, until the strict one is configured otherwise.
func TestTheStricterHolds(t *testing.T) {
	t.Parallel()
	loose := registry.Rules{DefaultEnabled: true, OnNew: registry.Enable, OnChange: registry.Enable}
	on := openStore(t, store.Options{Path: t.TempDir() + "/store.db"})
	gateway := func(name string, s registry.Rules) *rig {
		r := &rig{Registry: registry.New(registry.Options{Store: on, Gateway: name}), store: on, by: store.Change{Actor: "alice"}}
		r.caches()
		r.Configure(s)
		return r
	}
	a, b := gateway("a", loose), gateway("b", closed)
	b.list(t, offer(t, "s", tool("x", "one")))
	a.list(t, offer(t, "s", tool("x", "one")))
	if a.Stricter() == "" || b.Stricter() != "" {
		t.Errorf("a says %q, b says %q", a.Stricter(), b.Stricter())
	}
	// The server changes, and a, which would take it as it is, hears of it first.
	a.list(t, offer(t, "s", tool("x", "two"), tool("new")))
	a.expect(t, "changed, at a", "s", "x", isHeld)
	a.expect(t, "added, at a", "s", "new", isHeld)
	b.list(t, offer(t, "s", tool("x", "two"), tool("new")))
	b.expect(t, "changed, at b", "s", "x", isHeld)
	b.expect(t, "added, at b", "s", "new", isHeld)

	// A new start of a changes nothing.
	a = gateway("a", loose)
	a.list(t, offer(t, "s", tool("x", "three")))
	a.expect(t, "changed again, at a", "s", "x", isHeld)

	// b is configured as a is: nobody holds any more.
	b.Configure(loose)
	b.list(t, offer(t, "s", tool("x", "four")))
	a.list(t, offer(t, "s", tool("x", "four")))
	if got := a.says(t, asks("s", "x", alice)); got != "pass" || a.Stricter() != "" {
		t.Errorf("when all take what comes: %s, %q", got, a.Stricter())
	}
	// And a gateway that has its store alone goes by its own word.
	alone := gateway("", loose)
	alone.list(t, offer(t, "s", tool("x", "five")))
	if got := alone.says(t, asks("s", "x", alice)); got != "pass" {
		t.Errorf("alone: %s", got)
	}
}

// A server whose first list is empty has had its first list: what it lists later
// is added, and held.
func TestAnEmptyListIsAFirstOne(t *testing.T) {
	t.Parallel()
	s := closed
	s.OnNew = registry.Adopt
	r := newRig(t, s)
	empty, full := offer(t, "s"), offer(t, "s", tool("x"))
	empty.Instructions, full.Instructions = new(string), new(string)
	r.list(t, empty)
	r.list(t, full)
	r.expect(t, "after an empty list", "s", "x", isHeld)
	other := offer(t, "o", tool("x"))
	other.Instructions = new("Be kind.")
	r.list(t, full, other)
	if got := r.says(t, asks("o", "x", alice)); got != "pass" || !r.ShowsInstructions(alice, "o", "Be kind.") {
		t.Errorf("a first list: %s", got)
	}
	if !r.ShowsInstructionsToAll("o", "Be kind.") || r.ShowsInstructionsToAll("o", "Be cruel.") || r.ShowsInstructionsToAll("nobody", "Be kind.") {
		t.Error("what everybody is shown is not what was listed")
	}
	if r.ShowsInstructions(alice, "o", "Be cruel.") || r.ShowsInstructions(nil, "o", "Be kind.") || r.ShowsInstructions(alice, "nobody", "Be kind.") {
		t.Error("a text that was never listed is shown")
	}
}
