package daemon

import (
	"errors"
	"slices"
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

// A call whose arguments do not fit is judged without them, also behind an open breaker: what is
// missing may be the operator's. One whose arguments fit is judged with them.
func TestArgumentsOfARun(t *testing.T) {
	t.Parallel()
	step := func(phase string, e gate.Effect) proxy.Step {
		return proxy.Step{Explanation: gate.Explanation{Decision: gate.Decision{Phase: phase, Effect: e}}}
	}
	breaker, bad, fit := step("breaker", gate.Deny), step("arguments", gate.Deny), step("arguments", gate.Abstain)
	for name, tt := range map[string]struct {
		steps []proxy.Step // of the call with its arguments
		asked int
		ends  bool
	}{
		"they fit":                       {steps: []proxy.Step{fit}, asked: 1},
		"they do not fit":                {steps: []proxy.Step{bad}, asked: 2},
		"behind an open breaker":         {steps: []proxy.Step{breaker, bad}, asked: 2},
		"they fit behind it":             {steps: []proxy.Step{breaker, fit}, asked: 1},
		"the rules deny it":              {steps: []proxy.Step{step("governance", gate.Deny)}, asked: 1, ends: true},
		"the rules deny it behind it":    {steps: []proxy.Step{breaker, step("governance", gate.Deny)}, asked: 1, ends: true},
		"nothing is said of a call":      {asked: 1},
		"they are the first, then rates": {steps: []proxy.Step{bad, step("rate", gate.Deny)}, asked: 2},
	} {
		asked := 0
		w := explained([]byte(`{"task":"x"}`), func(args []byte) *proxy.Why {
			steps := tt.steps
			if asked++; args == nil { // the same without what is said of the arguments
				steps = slices.DeleteFunc(slices.Clone(steps), func(s proxy.Step) bool { return s.Phase == "arguments" })
			}
			v := proxy.Verdict{Decision: gate.Decision{Effect: gate.Allow}, Steps: steps}
			if at := slices.IndexFunc(steps, func(s proxy.Step) bool { return s.Effect == gate.Deny }); at >= 0 {
				v.Decision = steps[at].Decision
			}
			return &proxy.Why{Call: v}
		})
		if d := decision(&w.Call, true); asked != tt.asked || (d.Effect != gate.Allow) != tt.ends {
			t.Errorf("%s: asked %d times, %+v", name, asked, d)
		}
	}
	if w := explained(nil, func([]byte) *proxy.Why { return nil }); w != nil {
		t.Errorf("%+v", w)
	}
}
