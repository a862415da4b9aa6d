package registry_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/registry"
)

// What was accepted once can be accepted again: what the server offers now is held then,
// and the older definition is served when the server offers it.
func TestGoingBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, closed)
	r.list(t, offer(t, "a", tool("x", "one")))
	one := registry.Hash([]byte(`{"name":"x","description":"one"}`))
	r.list(t, offer(t, "a", tool("x", "two")))
	r.accept(t, "a__x")
	two := registry.Hash([]byte(`{"name":"x","description":"two"}`))
	r.expect(t, "the second", "a", "x", "pass")
	id := r.id(t, "a__x")
	if got := r.history(t, id); got != two+" "+one {
		t.Errorf("history: %s", got)
	}
	for hash, want := range map[string]error{two: registry.ErrNotHeld, strings.Repeat("0", 64): registry.ErrNotHeld, "": registry.ErrNotHeld} {
		if err := r.Accept(t.Context(), id, hash, r.by); !errors.Is(err, want) {
			t.Errorf("%q: %v", hash, err)
		}
	}
	must(t, r.Accept(t.Context(), id, one, r.by))
	r.expect(t, "gone back", "a", "x", isHeld)
	e, err := r.Entry(t.Context(), id, "")
	if err != nil || e.Record.AcceptedHash != one || e.Record.HeldHash != two || e.Change != r.by {
		t.Errorf("%+v, %v", e, err)
	}
	r.list(t, offer(t, "a", tool("x", "two")))
	r.expect(t, "listed again", "a", "x", isHeld)
	r.list(t, offer(t, "a", tool("x", "one")))
	r.expect(t, "the first again", "a", "x", "pass")
	r.list(t, offer(t, "a", tool("x", "three")))
	r.expect(t, "a third", "a", "x", isHeld)
	must(t, r.Accept(t.Context(), id, two, r.by)) // while a third is held
	r.expect(t, "the second, and the third is offered", "a", "x", isHeld)
	if e, _ = r.Entry(t.Context(), id, ""); e.Record.AcceptedHash != two || !strings.Contains(string(e.Record.HeldDefinition), "three") {
		t.Errorf("%+v", e)
	}
	next := rigOn(t, r.store, closed)
	next.list(t, offer(t, "a", tool("x", "two")))
	next.expect(t, "after a restart", "a", "x", "pass")
	if got := next.history(t, id); got != two+" "+one {
		t.Errorf("history: %s", got)
	}
}

// Where changed definitions are accepted by themselves, one that was taken back is not.
func TestGoingBackWhereChangesAreAccepted(t *testing.T) {
	t.Parallel()
	r := newRig(t, open)
	r.list(t, offer(t, "a", tool("x", "one")))
	r.list(t, offer(t, "a", tool("x", "two")))
	r.expect(t, "changed", "a", "x", "pass")
	must(t, r.Accept(t.Context(), r.id(t, "a__x"), registry.Hash([]byte(`{"name":"x","description":"one"}`)), r.by))
	r.list(t, offer(t, "a", tool("x", "two")))
	r.expect(t, "gone back", "a", "x", isHeld)
}

// The gateway's own definitions are what it declares.
func TestNoGoingBackForTheGatewaysOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t, closed)
	own := func(text string) *gate.Offer {
		o := offer(t, "tools", tool("x", text))
		o.Native = true
		return o
	}
	r.list(t, own("one"))
	r.list(t, own("two"))
	if err := r.Accept(t.Context(), r.id(t, "tools__x"), registry.Hash([]byte(`{"name":"x","description":"one"}`)), r.by); !errors.Is(err, registry.ErrDeclared) {
		t.Error(err)
	}
	r.expect(t, "as before", "tools", "x", "pass")
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for definition, want := range map[string]string{
		`{"_meta":{"dev.toolgate/version":"2.1"}}`: "2.1", `{"_meta":{"version":"v3"}}`: "v3", `{"_meta":{"version":3}}`: "", `{"version":"1"}`: "", ``: "",
		`{"_meta":{"version":"3","dev.toolgate/version":"4"}}`: "4",
	} {
		if got := registry.Version([]byte(definition)); got != want {
			t.Errorf("%s: %q", definition, got)
		}
	}
}

// history returns the hashes of the accepted definitions.
func (r *rig) history(t *testing.T, id string) string {
	t.Helper()
	list, err := r.History(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range list {
		out = append(out, list[i].Hash)
	}
	return strings.Join(out, " ")
}
