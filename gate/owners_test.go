package gate_test

import (
	"testing"

	"github.com/toolgate/toolgate/gate"
)

func TestOwners(t *testing.T) {
	alice := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i", Tenant: "t", Subject: "alice"}})
	twin := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i2", Tenant: "t", Subject: "alice"}})
	o := gate.NewOwners(map[string]string{"git-1": alice.Key()}, map[string]string{"dynamic-1": alice.Key()})
	for _, tc := range []struct {
		server string
		id     *gate.Identity
		want   gate.Effect
	}{
		{"git-1", alice, gate.Abstain}, {"git-1", twin, gate.Deny}, {"git-1", nil, gate.Deny}, {"dynamic-1", alice, gate.Abstain}, {"dynamic-1", twin, gate.Deny}, {"other", twin, gate.Abstain}, {"", nil, gate.Abstain},
	} {
		r := &gate.Request{Action: gate.View, Server: tc.server, Identity: tc.id}
		d, err := o.Check(t.Context(), r)
		if err != nil || d.Effect != tc.want {
			t.Errorf("%s for %v: %v, %v", tc.server, tc.id, d.Effect, err)
		}
		if e, err := o.Explain(t.Context(), r); err != nil || e.Effect != d.Effect || (len(e.Rules) > 0) != (d.Effect == gate.Deny) {
			t.Errorf("%s: explained as %+v, %v", tc.server, e, err)
		} else if (e.Change != nil) != (d.Effect == gate.Deny && tc.server == "git-1") { // nobody promotes a registered tool
			t.Errorf("%s: to be changed with %+v", tc.server, e.Change)
		}
	}
	class := func(o *gate.Owners, id *gate.Identity) string {
		class, cacheable := o.ViewClass(id)
		if !cacheable {
			t.Errorf("decisions for %v are not cacheable", id)
		}
		return class
	}
	if class(o, alice) == class(o, twin) || class(o, twin) != class(o, nil) {
		t.Error("callers who view differently are of one class, or the other way round")
	}
	if class(gate.NewOwners(nil, nil), twin) == class(o, twin) {
		t.Error("other owners are of the same class")
	}
}

func TestParsePrincipal(t *testing.T) {
	for _, p := range []gate.Principal{gate.Local, {}, {Issuer: "a:1", Tenant: "2:b", Subject: ":"}, {Subject: "é\x00"}} {
		if got, ok := gate.ParsePrincipal(p.Key()); !ok || got != p {
			t.Errorf("%q: %+v, %v", p.Key(), got, ok)
		}
	}
	for _, bad := range []string{"", "x", "1:a", "1:a1:b", "1:a1:b2:c", "1:a1:b1:cd", "-1:1:b1:c", "01:a1:b1:c", "+1:a1:b1:c", "99999999999999999999:a1:b1:c"} {
		if got, ok := gate.ParsePrincipal(bad); ok {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}
