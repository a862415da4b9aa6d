package registry_test

import (
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/registry"
)

// Held tells of what waits to be accepted, and of nothing that a caller would not see then.
func TestHeld(t *testing.T) {
	r := newRig(t, closed)
	r.list(t, offer(t, "a", tool("x", "one"), tool("y", "one"), tool("z", "one")))
	r.list(t, offer(t, "a", tool("x", "two"), tool("y", "two"), tool("z", "one")))
	must(t, r.Restrict(t.Context(), r.id(t, "a__y"), "dev", r.by))
	other := gate.NewIdentity(gate.Identity{Principal: alice.Principal, Persona: "ops"})
	for _, tt := range []struct {
		name string
		id   *gate.Identity
		want bool
	}{
		{"x", alice, true}, {"y", alice, false}, {"y", other, true}, {"z", alice, false}, {"none", alice, false}, {"x", nil, false},
	} {
		if got := r.Held(asks("a", tt.name, tt.id)); got != tt.want {
			t.Errorf("%s for %+v: %t", tt.name, tt.id, got)
		}
	}
	if (&registry.Registry{}).Held(asks("a", "x", alice)) {
		t.Error("a registry that is not ready tells of something")
	}
}
