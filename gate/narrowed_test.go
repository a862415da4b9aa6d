package gate_test

import (
	"context"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/capsule"
	"github.com/toolgate/toolgate/internal/mcp"
)

// TestNarrowed: an agent may do what its caller may and what its capsules have, whoever
// holds them; a chain that knows no capsules decides nothing for it.
func TestNarrowed(t *testing.T) {
	list := func(names ...string) (all []capsule.Pattern) {
		for _, n := range names {
			all = append(all, capsule.Pattern{Glob: gate.Glob(n)})
		}
		return all
	}
	phase, err := capsule.New([]capsule.Capsule{
		{Name: "team", Visible: list("*"), Callable: list("s__*"), Groups: []string{"team"}},
		{Name: "reads", Visible: list("s__read", "s__write"), Callable: list("s__read", "t__read")},
		{Name: "writes", Visible: list("s__write"), Callable: list("s__write")},
	})
	if err != nil {
		t.Fatal(err)
	}
	caller := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i", Subject: "a"}, Groups: []string{"team"}})
	stranger := gate.NewIdentity(gate.Identity{Principal: caller.Principal})
	with, without := gate.NewChain(phase), gate.NewChain(gate.Open{})
	for _, c := range []struct {
		id         *gate.Identity
		name       string
		view, call bool
	}{
		{caller, "s__read", true, true},
		{caller.Narrowed("r", "reads"), "s__read", true, true},
		{caller.Narrowed("r", "reads"), "s__write", true, false},
		{caller.Narrowed("r", "reads"), "t__read", false, false}, // the caller may not call it, and the capsule does not show it
		{caller.Narrowed("r", "reads"), "s__other", false, false},
		{caller.Narrowed("r", ""), "s__other", true, true},
		{caller.Narrowed("r", "reads").Narrowed("w", "writes"), "s__read", false, false},
		{caller.Narrowed("r", "reads").Narrowed("w", "writes"), "s__write", true, false},
		{caller.Narrowed("r", "gone"), "s__read", false, false},
		{stranger.Narrowed("r", "reads"), "s__read", false, false},
	} {
		for action, want := range map[gate.Action]bool{gate.View: c.view, gate.Call: c.call} {
			of := gate.Request{Action: action, Kind: mcp.Tool, Server: "s", Original: c.name, Exposed: c.name, Identity: c.id}
			for range 2 { // the second decision comes from the cache
				if d := with.Decide(context.Background(), &of); (d.Effect == gate.Allow) != want {
					t.Errorf("%v %q %v %s: %+v, want %t", c.id.Agents, c.id.Capsules, action, c.name, d, want)
				}
			}
			if d := with.DecideAll(context.Background(), []gate.Request{of}); (d[0].Effect == gate.Allow) != want {
				t.Errorf("%v %q %v %s among many: %+v, want %t", c.id.Agents, c.id.Capsules, action, c.name, d, want)
			}
			wantWithout := len(c.id.Capsules) == 0
			if d, _ := without.Explain(context.Background(), &of); (d.Effect == gate.Allow) != wantWithout {
				t.Errorf("%v: a chain without capsules explains %+v", c.id.Agents, d)
			}
			if d := without.Decide(context.Background(), &of); (d.Effect == gate.Allow) != wantWithout {
				t.Errorf("%v: a chain without capsules decides %+v", c.id.Agents, d)
			}
			if d := without.DecideAll(context.Background(), []gate.Request{of}); (d[0].Effect == gate.Allow) != wantWithout {
				t.Errorf("%v: a chain without capsules decides %+v among many", c.id.Agents, d)
			}
		}
	}
}

// TestNarrowedIsAnother: whatever is cached for one identity is never taken for a narrower one.
func TestNarrowedIsAnother(t *testing.T) {
	id := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i", Subject: "a"}, Groups: []string{"g"}})
	seen := map[string]string{}
	for name, of := range map[string]*gate.Identity{
		"caller": id, "agent": id.Narrowed("a", ""), "capsule": id.Narrowed("", "a"), "both": id.Narrowed("a", "b"),
		"two": id.Narrowed("a", "b").Narrowed("c", "d"), "joined": id.Narrowed("a", "bd").Narrowed("c", ""),
		"group": gate.NewIdentity(gate.Identity{Principal: id.Principal, Groups: []string{"g", "a"}}),
	} {
		for _, key := range []string{of.Fingerprint(), of.Rights()} {
			if other := seen[key]; other != "" && other != name {
				t.Errorf("%s is the same as %s", name, other)
			}
			seen[key] = name
		}
		if of.Key() != id.Key() {
			t.Errorf("%s is another principal", name)
		}
	}
}

// TestNarrowsOnly: capsules that are there for agents alone say nothing about other callers,
// and one that has a holder makes all of them decide.
func TestNarrowsOnly(t *testing.T) {
	reads := capsule.Capsule{Name: "reads", Visible: []capsule.Pattern{{Glob: "s__read"}}, Callable: []capsule.Pattern{{Glob: "s__read"}}, NarrowsOnly: true}
	team := capsule.Capsule{Name: "team", Groups: []string{"team"}}
	caller := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i", Subject: "a"}})
	for name, tt := range map[string]struct {
		capsules []capsule.Capsule
		id       *gate.Identity
		tool     string
		endpoint string
		want     gate.Effect
	}{
		"a caller":                      {[]capsule.Capsule{reads}, caller, "s__write", "", gate.Allow},
		"an agent":                      {[]capsule.Capsule{reads}, caller.Narrowed("r", "reads"), "s__read", "", gate.Allow},
		"an agent outside":              {[]capsule.Capsule{reads}, caller.Narrowed("r", "reads"), "s__write", "", gate.Deny},
		"nobody holds its endpoint":     {[]capsule.Capsule{reads}, caller, "s__read", "reads", gate.Deny},
		"beside one that has holders":   {[]capsule.Capsule{reads, team}, caller, "s__read", "", gate.Deny},
		"a capsule that is not written": {[]capsule.Capsule{reads}, caller.Narrowed("r", "other"), "s__read", "", gate.Deny},
	} {
		p, err := capsule.New(tt.capsules)
		if err != nil {
			t.Fatal(err)
		}
		c := gate.NewChain(gate.Open{}, p)
		r := gate.Request{Action: gate.Call, Kind: mcp.Tool, Exposed: tt.tool, Identity: tt.id, Capsule: tt.endpoint}
		if d := c.Decide(context.Background(), &r); d.Effect != tt.want {
			t.Errorf("%s: %+v", name, d)
		}
	}
	var none *capsule.Phase
	if p, err := capsule.New(nil); err != nil || !p.Decides() || !none.Decides() {
		t.Error("a phase without capsules grants something")
	}
}

// TestLent: a capsule that is lent decides within itself alone, and in place of what the
// caller holds. What narrows the caller narrows that too, and it goes no further.
func TestLent(t *testing.T) {
	list := func(names ...string) (all []capsule.Pattern) {
		for _, n := range names {
			all = append(all, capsule.Pattern{Glob: gate.Glob(n)})
		}
		return all
	}
	phase, err := capsule.New([]capsule.Capsule{
		{Name: "team", Visible: list("t__*"), Callable: list("t__*"), Groups: []string{"team"}},
		{Name: "desk", Visible: list("s__*"), Callable: list("s__read"), NarrowsOnly: true},
		{Name: "other", Visible: list("s__write"), Callable: list("s__write"), NarrowsOnly: true},
		{Name: "few", Visible: list("t__*"), Callable: list("t__*")},
	})
	if err != nil {
		t.Fatal(err)
	}
	caller := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i", Subject: "a"}, Groups: []string{"team"}})
	lent := caller.Borrowing("desk")
	chain := gate.NewChain(phase)
	for _, c := range []struct {
		id          *gate.Identity
		within      string
		name        string
		view, calls bool
	}{
		{lent, "desk", "s__read", true, true},
		{lent, "desk", "s__write", true, false},
		{lent, "desk", "t__read", false, false}, // what the caller holds is not added to it
		{lent, "", "s__read", false, false},
		{lent, "", "t__read", true, true},
		{lent, "other", "s__write", false, false},
		{caller, "desk", "s__read", false, false},
		{lent.Narrowed("", ""), "desk", "s__read", false, false},
		{caller.Narrowed("r", "few").Borrowing("desk"), "desk", "s__read", false, false},
		{caller.Narrowed("r", "desk").Borrowing("desk"), "desk", "s__read", true, true},
		{caller.Borrowing("gone"), "gone", "s__read", false, false},
		{caller.Borrowing(""), "desk", "s__read", false, false},
	} {
		for action, want := range map[gate.Action]bool{gate.View: c.view, gate.Call: c.calls} {
			of := gate.Request{Action: action, Kind: mcp.Tool, Server: "s", Original: c.name, Exposed: c.name, Identity: c.id, Capsule: c.within}
			for range 2 { // the second decision comes from the cache
				d := chain.Decide(context.Background(), &of)
				if (d.Effect == gate.Allow) != want {
					t.Errorf("lent %q, within %q: %v %s: %+v, want %t", c.id.Lent, c.within, action, c.name, d, want)
				}
				if want && c.within != "" && d.Reason != "run_as desk" {
					t.Errorf("the audit log does not say by what: %+v", d)
				}
			}
		}
	}
	if lent.Rights() == caller.Rights() || lent.Fingerprint() == caller.Fingerprint() || lent.Key() != caller.Key() {
		t.Error("what is decided for one is taken for the other, or it is somebody else")
	}
}
