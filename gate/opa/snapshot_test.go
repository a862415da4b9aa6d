package opa_test

import (
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
)

// The snapshot is there where decisions are cacheable, and another one as soon as the
// policy, or its data, is replaced.
func TestSnapshot(t *testing.T) {
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
				before := p.Snapshot(asked.r)
				if (before != nil) != asked.want {
					t.Errorf("%s: snapshot %v, want one: %v", asked.r.Action, before, asked.want)
				}
				if before != p.Snapshot(asked.r) {
					t.Errorf("%s: the same policy has two snapshots", asked.r.Action)
				}
			}
			before := p.Snapshot(view("a"))
			if err := p.SetData(opa.Data{GlobalToolDeny: []string{"b"}}); err != nil {
				t.Fatal(err)
			}
			if tc.view && p.Snapshot(view("a")) == before {
				t.Error("other data, the same snapshot")
			}
			if p.Snapshot(&gate.Request{Action: gate.View}) != nil {
				t.Error("nobody asks, and the decision is cacheable")
			}
		})
	}
}
