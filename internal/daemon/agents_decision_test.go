package daemon

import (
	"errors"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy"
)

// What only the beginning of a call needs does not end a run that has begun. What the rules say
// does, also behind an open breaker.
func TestDecisionOnARun(t *testing.T) {
	t.Parallel()
	away := errors.New("the policy server is away")
	said := func(phase string, e gate.Effect, err error) gate.Decision {
		return gate.Decision{Phase: phase, Effect: e, Err: err}
	}
	for name, tt := range map[string]struct {
		decided gate.Decision
		steps   []gate.Decision
		begun   bool
		effect  gate.Effect
		err     error
	}{
		"allowed":                    {decided: said("", gate.Allow, nil), begun: true, effect: gate.Allow},
		"denied by the gate":         {decided: said("capsule", gate.Deny, nil), begun: true},
		"undecided by the gate":      {decided: said("opa", gate.Deny, away), begun: true, err: away},
		"no rate is left":            {decided: said("rate", gate.Deny, nil), begun: true, effect: gate.Allow},
		"no rate for one that comes": {decided: said("rate", gate.Deny, nil)},
		"an open breaker":            {decided: said("breaker", gate.Deny, nil), begun: true, effect: gate.Allow, steps: []gate.Decision{said("breaker", gate.Deny, nil), said("governance", gate.Abstain, nil), said("rate", gate.Deny, nil)}},
		"one that comes":             {decided: said("breaker", gate.Deny, nil), steps: []gate.Decision{said("breaker", gate.Deny, nil)}},
		"rules behind it":            {decided: said("breaker", gate.Deny, nil), begun: true, steps: []gate.Decision{said("breaker", gate.Deny, nil), said("governance", gate.Deny, nil)}},
		"nobody decides behind it":   {decided: said("breaker", gate.Deny, nil), begun: true, err: away, steps: []gate.Decision{said("breaker", gate.Deny, nil), said("governance", gate.Deny, away)}},
	} {
		v := &proxy.Verdict{Decision: tt.decided}
		for _, d := range tt.steps {
			v.Steps = append(v.Steps, proxy.Step{Explanation: gate.Explanation{Decision: d}})
		}
		if d := decision(v, tt.begun); d.Effect != tt.effect || !errors.Is(d.Err, tt.err) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
