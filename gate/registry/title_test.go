package registry_test

import (
	"testing"

	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/store"
)

// The title of a seed is given to clients, also once the server has another definition
// and after a restart. A title of the server's own is never given twice.
func TestTitle(t *testing.T) {
	t.Parallel()
	rules := closed
	rules.OnNew, rules.OnChange = registry.Enable, registry.Enable
	s := seeded(rules, registry.SeedEntry{Name: "a__named", DisplayName: "For people"})
	r := newRig(t, s)
	titled := func(name, title string) string { return `tool {"name":"` + name + `","title":"` + title + `"}` }
	expect := func(when string, r *rig, name, listed, want, shown string) {
		t.Helper()
		e, err := r.Entry(t.Context(), name, "tool")
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Title(e.ID, []byte(`{"title":"`+listed+`"}`)); got != want || e.DisplayName != shown {
			t.Errorf("%s: the title of %s is %q, kept as %q; want %q and %q", when, name, got, e.DisplayName, want, shown)
		}
	}
	r.list(t, offer(t, "a", titled("named", "first"), titled("own", "first"), tool("none")))
	expect("first", r, "a__named", "first", "For people", "For people")
	expect("first", r, "a__own", "first", "", "first")
	expect("first", r, "a__none", "", "", "")
	r.list(t, offer(t, "a", titled("named", "second"), titled("own", "other"), titled("none", "third")))
	expect("second", r, "a__named", "first", "For people", "For people")
	expect("second", r, "a__none", "third", "", "third")
	r.list(t, offer(t, "a", tool("named"), tool("own"), tool("none")))
	expect("third", r, "a__named", "first", "For people", "For people")
	expect("third", r, "a__own", "", "", "")
	next := rigOn(t, r.store, rules)
	next.list(t, offer(t, "a", tool("named"), titled("own", "other"), tool("none")))
	expect("after a restart", next, "a__named", "first", "For people", "For people")
	if got := r.Title("cap_of_nothing", nil); got != "" {
		t.Errorf("nothing has the title %q", got)
	}
}

// What stands in for a server's list is recorded nowhere, and has the title that it lists.
func TestTitleOfAStandIn(t *testing.T) {
	t.Parallel()
	r := standInRig(t, openStore(t, store.Options{}))
	of := standingIn(t, true)
	of.Items[0].CapabilityID = "cap_join"
	r.list(t, of)
	if got := r.Title("cap_join", []byte(joinTool)); got != "" {
		t.Errorf("it has the title %q", got)
	}
}
