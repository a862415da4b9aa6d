package opa_test

import (
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
)

// A policy is steady where its decisions may be kept, and another one as soon as
// it, or its data, is replaced.
func TestState(t *testing.T) {
	t.Parallel()
	const plain = "package toolgate\n\ndefault decision := false\n\ndecision if input.tool_name == \"a\"\n"
	for name, tc := range map[string]struct {
		policy     string
		mode       opa.Mode
		view, call bool
	}{
		"reads the name":         {plain, opa.Enforce, true, true},
		"reads arguments":        {plain + "\ndecision if input.args.x == 1\n", opa.Enforce, true, false},
		"reads the clock":        {plain + "\ndecision if time.now_ns() > 0\n", opa.Enforce, false, false},
		"is reported every time": {plain, opa.Shadow, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, files{"policy.rego": tc.policy}), Mode: tc.mode}})
			for _, asked := range []struct {
				r    *gate.Request
				want bool
			}{{view("a"), tc.view}, {call("a", `{"x":1}`), tc.call}} {
				before := p.State(asked.r)
				if (before != nil) != asked.want {
					t.Errorf("%s: state %v, want one: %v", asked.r.Action, before, asked.want)
				}
				if before != p.State(asked.r) {
					t.Errorf("%s: the same policy has two states", asked.r.Action)
				}
			}
			before := p.State(view("a"))
			if err := p.SetData(opa.Data{GlobalToolDeny: []string{"b"}}); err != nil {
				t.Fatal(err)
			}
			if tc.view && p.State(view("a")) == before {
				t.Error("other data, the same state")
			}
			if p.State(&gate.Request{Action: gate.View}) != nil {
				t.Error("nobody asks, and it is steady")
			}
		})
	}
}
