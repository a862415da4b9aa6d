package agents

import (
	"testing"

	"github.com/toolgate/toolgate/gate"
)

// Whose run it is can be told by its owner alone, whatever is in the name.
func TestOwnerName(t *testing.T) {
	t.Parallel()
	alice := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i", Tenant: "t", Subject: "alice"}})
	odd := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i", Tenant: "t", Subject: "a\x00b"}})
	for owner, want := range map[string]string{
		owner(alice): "alice of t", owner(alice.Narrowed("a", "c")): "an agent for alice of t", owner(odd): "a\x00b of t",
		owner(odd.Narrowed("a", "")): "an agent for a\x00b of t", "": "", "x": "", "\x00": "",
	} {
		if got := ownerName(owner); got != want {
			t.Errorf("%q: %q, want %q", owner, got, want)
		}
	}
}
