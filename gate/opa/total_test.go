package opa_test

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/opa"
)

// A decision that may be undefined is warned of, and no other.
func TestDecisionWithoutDefault(t *testing.T) {
	t.Parallel()
	for rego, warned := range map[string]bool{
		`decision := true if input.tool_name == "a"`:                                                             true,
		`decision := {"allow": true} if input.user_id == "a"` + "\nelse := {\"allow\": true} if true == input.x": true,
		`decision := {"allow": allow}` + "\nallow if input.user_id == \"a\"":                                     true,
		`decision := input.scopes[0] == "a"`:                                                                     true,
		`decision if not deny` + "\ndeny if input.x":                                                             true,
		"decision := f(1)\nf(x) := true if x > 1":                                                                true,
		`decision := data.own.allow`:                                                                             true,

		`decision := true`: false,
		"default decision := false\ndecision if input.x":                                                                        false,
		"decision := true if input.x\nelse := false":                                                                            false,
		"decision := {\"allow\": allow}\ndefault allow := false\nallow if input.x":                                              false,
		"decision := count(deny) == 0\ndeny contains \"x\" if input.x":                                                          false,
		"decision := {\"allow\": ok, \"reason\": concat(\", \", deny)}\nok := count(deny) == 0\ndeny contains \"x\" if input.x": false,
	} {
		p := newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, policy(rego))}})
		got := p.Warnings()
		if (len(got) > 0) != warned {
			t.Errorf("%s: warned %q", rego, got)
		}
		if warned && (len(got) != 1 || !strings.Contains(got[0], "policy.rego:3: data.toolgate.decision has no default")) {
			t.Errorf("%s: warned %q", rego, got)
		}
	}
	if got := newPhase(t, opa.Options{Settings: opa.Settings{Path: defaultPolicy}}).Warnings(); len(got) > 0 {
		t.Errorf("the shipped policy: %q", got)
	}
}
