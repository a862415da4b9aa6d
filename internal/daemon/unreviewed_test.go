package daemon

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/registry"
)

func TestUnreviewedReason(t *testing.T) {
	t.Parallel()
	const hostile = "a__x`; rm -rf ~ #"
	for want, of := range map[string]registry.Unreviewed{
		"1 definition is held: see `toolgate catalog diff a__x`":                                                        {Held: []string{"a__x"}},
		"1 definition is held because it looks like prompt injection: see `toolgate catalog diff a__x`":                 {Held: []string{"a__x"}, Suspicious: 1},
		"2 definitions are held: see `toolgate catalog ls --state held`":                                                {Held: []string{"a__x", "a__y"}},
		"2 definitions are held, 1 because of what looks like prompt injection: see `toolgate catalog ls --state held`": {Held: []string{"a__x", "a__y"}, Suspicious: 1},
		"1 definition is new or changed, and is served: see `toolgate catalog show a__x`":                               {Adopted: []string{"a__x"}},
		"2 definitions are new or changed, and are served: see `toolgate catalog show a__x`":                            {Adopted: []string{hostile, "a__x"}},
		"1 definition is held: see `toolgate catalog diff NAME`; 1 definition is new or changed, and is served: see `toolgate catalog show NAME`": {
			Held: []string{hostile}, Adopted: []string{hostile},
		},
	} {
		if got := unreviewedReason(&of); got != want {
			t.Errorf("%+v:\n%s, want\n%s", of, got, want)
		}
		if fix := unreviewedOf(&of).Fix; fix == "" || strings.Contains(fix, "rm -rf") {
			t.Errorf("%+v: %s", of, fix)
		}
	}
	many := registry.Unreviewed{Held: make([]string, maxUnreviewedNames+1)}
	if got := unreviewedOf(&many); got.Held != maxUnreviewedNames+1 || len(got.HeldNames) != maxUnreviewedNames {
		t.Errorf("%d names of %d", len(got.HeldNames), got.Held)
	}
}
