package gate_test

import (
	"context"
	"testing"

	"github.com/toolgate/toolgate/gate"
)

// moving is a phase whose rules change.
type moving struct{ now *decided }

type decided struct{ effect gate.Effect }

func (f *decided) Part() gate.Part { return gate.Part{Name: "decided", Check: f.Check} }

func (f *decided) Check(context.Context, *gate.Request) (gate.Decision, error) {
	return gate.Decision{Effect: f.effect}, nil
}

func (m *moving) Part() gate.Part {
	return gate.Part{Name: "moving", Check: m.Check, Pin: func() (gate.Part, any) { return m.now.Part(), m.now }}
}

func (m *moving) Check(ctx context.Context, r *gate.Request) (gate.Decision, error) {
	return m.now.Check(ctx, r)
}

// uncomparable is a phase that cannot be compared with ==.
type uncomparable struct{ _ func() }

func (u uncomparable) Part() gate.Part { return gate.Part{Name: "uncomparable", Check: u.Check} }

func (uncomparable) Check(context.Context, *gate.Request) (gate.Decision, error) {
	return gate.Decision{Effect: gate.Allow}, nil
}

// Without a phase, the others decide as before.
func TestWithout(t *testing.T) {
	deny, allow := &moving{&decided{gate.Deny}}, uncomparable{}
	for name, tt := range map[string]struct {
		chain *gate.Chain
		want  gate.Effect
	}{
		"the one that denies":   {gate.NewChain(deny, allow).Without("moving"), gate.Allow},
		"the one that allows":   {gate.NewChain(allow, deny).Without("uncomparable"), gate.Deny},
		"one that is not there": {gate.NewChain(deny, allow).Without("opa"), gate.Deny},
		"the only one":          {gate.NewChain(allow).Without("uncomparable"), gate.Deny},
		"of none":               {(*gate.Chain)(nil).Without("moving"), gate.Deny},
	} {
		r := &gate.Request{Action: gate.View, Identity: gate.NewIdentity(gate.Identity{})}
		if d := tt.chain.Decide(t.Context(), r); d.Effect != tt.want {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestPin(t *testing.T) {
	m := &moving{&decided{gate.Allow}}
	chain := gate.NewChain(uncomparable{}, m)
	before := chain.Pin()
	q := &gate.Request{Action: gate.View, Identity: gate.NewIdentity(gate.Identity{Principal: gate.Local})}
	if !before.Same(chain.Pin()) {
		t.Error("the same rules are not the same")
	}
	m.now = &decided{gate.Deny}
	after := chain.Pin()
	if before.Same(after) || after.Same(before) {
		t.Error("other rules are the same")
	}
	for name, tt := range map[string]struct {
		chain *gate.Chain
		want  gate.Effect
	}{"pinned before": {before, gate.Allow}, "pinned after": {after, gate.Deny}, "the chain": {chain, gate.Deny}} {
		if got := tt.chain.Decide(t.Context(), q).Effect; got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	plain := gate.NewChain(gate.Open{})
	if plain.Pin() != plain || !plain.Same(plain) || plain.Same(gate.NewChain(gate.Open{})) {
		t.Error("a chain that does not change")
	}
	var none *gate.Chain
	if none.Pin() != nil || !none.Same(nil) || none.Same(before) || before.Same(nil) || before.Same(chain) {
		t.Error("a nil chain")
	}
	other := gate.NewChain(uncomparable{}, m)
	if after.Same(other.Pin()) {
		t.Error("another chain is the same")
	}
}
