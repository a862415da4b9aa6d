package registry_test

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testwait"
)

func seeded(s registry.Rules, entries ...registry.SeedEntry) registry.Rules {
	for i := range entries {
		entries[i].At = gate.Rule{File: "seed.yaml", Line: i + 1}
	}
	s.Seed = &registry.Seed{Entries: entries}
	return s
}

// A seed says what becomes of a capability when it is first seen, by either
// name, and nothing afterwards.
func TestSeed(t *testing.T) {
	t.Parallel()
	no, yes := false, true
	s := seeded(closed,
		registry.SeedEntry{Name: "a__off", Enabled: &no, Category: "danger"},
		registry.SeedEntry{Server: "a", Original: "flagged", Tenants: map[string]bool{"acme": false}},
		registry.SeedEntry{Name: "a__away", DenyPersonas: []string{"dev"}},
		registry.SeedEntry{Name: "a__reads", Class: registry.ClassReadOnly, Risk: "low"},
		registry.SeedEntry{Name: "a__off", Kind: "prompt", Enabled: &yes},
		registry.SeedEntry{Name: "a__nothing"},
	)
	s.OnNew = registry.Hold
	r := newRig(t, s)
	of := offer(t, "a", tool("off"), tool("flagged"), tool("away"), tool("reads"), tool("unnamed"))
	r.list(t, of)
	want := map[string]string{"off": isDisabled, "flagged": isOff, "away": isAway, "reads": "pass", "unnamed": isHeld}
	for name, reason := range want {
		r.expect(t, "first seen", "a", name, reason)
	}
	if c := r.Class(r.id(t, "a__reads")); !c.ReadOnly {
		t.Errorf("class: %+v", c)
	}
	e, _ := r.Entry(t.Context(), "a__off", "tool")
	if e.Category != "danger" || e.Change.Actor != registry.SourceSeed || e.Change.Reason != "seed.yaml:1" || !e.Decided {
		t.Errorf("entry: %+v", e)
	}

	// What a person decides afterwards stays, whatever the file says.
	must(t, r.SetEnabled(t.Context(), e.ID, true, r.by))
	_, err := r.ClearFlag(t.Context(), r.id(t, "a__flagged"), "acme")
	must(t, err)
	next := rigOn(t, r.store, s)
	next.list(t, of)
	next.expect(t, "after a restart", "a", "off", "pass")
	next.expect(t, "after a restart", "a", "flagged", "pass")
	next.list(t, offer(t, "a", tool("off"), tool("flagged", "changed"), tool("away"), tool("reads"), tool("unnamed")))
	if e, _ := next.Entry(t.Context(), "a__flagged", ""); e.State != store.StateHeld || len(e.Flags) != 0 {
		t.Errorf("a change brings back the seed: %+v", e)
	}
	next.list(t, of)
	next.run(t)
	testwait.Until(t, patience, "an alarm for what is named in vain", func() bool { return next.alarms("a__nothing") })
	if next.alarms("a__reads") {
		t.Errorf("a false alarm:\n%s", next.log)
	}

	// Applied at a person's wish it counts again.
	unmatched, err := r.Sow(t.Context(), s.Seed, r.by)
	if err != nil || len(unmatched) != 2 || unmatched[0].Kind != "prompt" || unmatched[1].Name != "a__nothing" {
		t.Errorf("sown: %+v, %v", unmatched, err)
	}
	r.expect(t, "sown", "a", "off", isDisabled)
	r.expect(t, "sown", "a", "flagged", isOff)
}

func (r *rig) alarms(name string) bool { return strings.Contains(r.log.String(), "name="+name) }

// A seed that names a definition accepts that one and no other, also where it
// looks suspicious.
func TestSeedPins(t *testing.T) {
	t.Parallel()
	hash := func(line string) string { return registry.Hash([]byte(strings.TrimPrefix(line, "tool "))) }
	r := newRig(t, seeded(closed,
		registry.SeedEntry{Name: "a__pinned", Definition: hash(tool("pinned", poison))},
		registry.SeedEntry{Name: "a__other", Definition: hash(tool("other", "one"))},
		registry.SeedEntry{Name: "a__named"},
	))
	r.list(t, offer(t, "a", tool("pinned", poison), tool("other", "two"), tool("named", poison)))
	r.expect(t, "pinned", "a", "pinned", "pass")
	r.expect(t, "not the one that was pinned", "a", "other", isHeld)
	r.expect(t, "named, and suspicious", "a", "named", isHeld)
}

// Dynamic servers of a seed are added once ever.
func TestSeedServers(t *testing.T) {
	t.Parallel()
	s := open
	s.Seed = &registry.Seed{Servers: []registry.SeedServer{{Server: "maps", Entry: "maps", Tenant: "default", Arguments: []byte(`{"zone":"eu"}`)}}}
	r := newRig(t, s)
	r.run(t)
	has := func() bool {
		d, ok, err := r.store.Dynamic().Get(t.Context(), "maps")
		must(t, err)
		return ok && d.Promoted && d.Entry == "maps" && string(d.Arguments) == `{"zone":"eu"}`
	}
	testwait.Until(t, patience, "the server is there", has)
	testwait.Until(t, patience, "it is remembered", func() bool {
		_, ok, err := r.store.Meta().Get(t.Context(), "registry/seeded/maps")
		must(t, err)
		return ok
	})
	_, err := r.store.Dynamic().Remove(t.Context(), "maps")
	must(t, err)
	next := rigOn(t, r.store, s)
	next.list(t, offer(t, "a", tool("x")))
	next.run(t)
	testwait.Until(t, patience, "it runs", func() bool { return next.Healthy() == nil })
	must(t, next.SetEnabled(t.Context(), next.id(t, "a__x"), false, next.by)) // a whole round
	if has() {
		t.Error("a server that was removed is back")
	}
}

func TestSeedChecks(t *testing.T) {
	t.Parallel()
	s := seeded(open, registry.SeedEntry{Name: "x"}, registry.SeedEntry{Name: "x"})
	if err := s.Seed.Check(); err == nil || !strings.Contains(err.Error(), "seed.yaml:2: x is there already, in line 1") {
		t.Errorf("the same twice: %v", err)
	}
	s = seeded(open, registry.SeedEntry{Name: "x"}, registry.SeedEntry{Server: "a", Original: "x"}, registry.SeedEntry{Name: "y"})
	must(t, s.Seed.Check())
	un := s.Seed.Unmatched([]store.RegistryRecord{{Kind: mcp.Tool.String(), Server: "b", Original: "x", Name: "x"}})
	if len(un) != 2 || un[0].Server != "a" || un[1].Name != "y" {
		t.Errorf("unmatched: %+v", un)
	}
}
