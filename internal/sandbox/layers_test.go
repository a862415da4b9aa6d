package sandbox

import (
	"errors"
	"strings"
	"testing"
)

// What a description says of a run is what the layers that are missing leave open.
func TestCaveat(t *testing.T) {
	t.Parallel()
	missing := func(layers ...Layer) Layers {
		l := Layers{}
		for _, layer := range []Layer{Privileges, Limits, Files, Calls, Namespaces, Processes} {
			has := true
			for _, m := range layers {
				has = has && m != layer
			}
			l.add(layer, has, layer != Namespaces, "why")
		}
		return l
	}
	for _, c := range []struct {
		layers Layers
		want   []string // parts; none is nothing
		not    string
	}{
		{missing(), nil, ""},
		{missing(Namespaces), nil, ""},
		{missing(Files), []string{"partial", "landlock"}, "can read"}, // namespaces hide the files
		{missing(Files, Namespaces), []string{"read and change the files"}, "network"},
		{missing(Files, Namespaces, Calls), []string{"read and change the files", "network"}, ""},
		{missing(Namespaces, Processes), []string{"partial", "processes"}, "network"},
	} {
		got := c.layers.Caveat()
		if (got == "") != (c.want == nil) {
			t.Errorf("%+v: %q", c.layers.Missing, got)
		}
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%q lacks %q", got, part)
			}
		}
		if c.not != "" && strings.Contains(got, c.not) {
			t.Errorf("%q says %q", got, c.not)
		}
	}
	err := missing(Files).refusal()
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "lacks landlock") || !strings.Contains(err.Error(), "write sandbox: auto") {
		t.Error(err)
	}
}
