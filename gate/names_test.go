package gate_test

import (
	"slices"
	"testing"

	"github.com/toolgate/toolgate/gate"
)

func TestNames(t *testing.T) {
	t.Parallel()
	one := gate.Names{Exposed: "gh__delete"}
	two := gate.Names{Exposed: "gh__delete_abcdefg", Unsuffixed: "gh__delete"}
	for _, tt := range []struct {
		names               gate.Names
		by                  gate.Glob
		restricted, granted bool
	}{
		{one, "gh__delete", true, true},
		{one, "gh__*", true, true},
		{one, "gh__delete_*", false, false},
		{one, "", false, false},
		{two, "gh__delete", true, false},         // the name is not what clients know
		{two, "gh__delete_abcdefg", true, true},  // by name
		{two, "gh__*", true, true},               // both
		{two, "gh__delete_*", true, false},       // in reach by its neighbour alone
		{two, "gh__delete_abcdef?", true, false}, // likewise
		{two, "gh__delet?", true, false},         // not what clients know
		{two, "fs__*", false, false},
		{two, "", false, false},
	} {
		if got := tt.names.Restricted(tt.by); got != tt.restricted {
			t.Errorf("%q restricts %+v: %t", tt.by, tt.names, got)
		}
		if got := tt.names.Granted(tt.by); got != tt.granted {
			t.Errorf("%q grants %+v: %t", tt.by, tt.names, got)
		}
	}
	if !slices.Equal(one.All(), []string{"gh__delete"}) || !slices.Equal(two.All(), []string{"gh__delete_abcdefg", "gh__delete"}) {
		t.Errorf("names %q, %q", one.All(), two.All())
	}
	if one.Stable() != two.Stable() {
		t.Errorf("%q is %q with a twin", one.Stable(), two.Stable())
	}
}
