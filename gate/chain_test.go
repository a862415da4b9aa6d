package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate"
)

// told is a phase that answers as it was told, by the exposed name.
type told struct {
	name    string
	answers map[string]gate.Decision
	panics  bool
}

func (p *told) Part() gate.Part { return gate.Part{Name: p.name, Check: p.Check} }

func (p *told) Check(_ context.Context, r *gate.Request) (gate.Decision, error) {
	if p.panics {
		panic("told to")
	}
	d := p.answers[r.Exposed]
	if d.Err != nil {
		return gate.Decision{Reason: d.Reason}, d.Err
	}
	return d, nil
}

// toldBatch is told that takes requests together.
type toldBatch struct {
	told
	short bool // one decision too few
}

func (p *toldBatch) Part() gate.Part {
	return gate.Part{Name: p.name, Check: p.Check, CheckAll: p.CheckAll}
}

func (p *toldBatch) CheckAll(_ context.Context, rs []gate.Request) ([]gate.Decision, error) {
	if p.panics {
		panic("told to")
	}
	out := make([]gate.Decision, len(rs))
	for i := range rs {
		out[i] = p.answers[rs[i].Exposed]
	}
	if p.short {
		out = out[1:]
	}
	return out, nil
}

var errTold = errors.New("told to fail")

// Many requests at once are decided as one by one, and Explain agrees, over
// random chains of phases that take them together or not.
func TestDecideAllAgreesWithDecide(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for n := range 500 {
		var phases []gate.Phase
		for i := range random.IntN(5) {
			answers := make(map[string]gate.Decision)
			for r := range 8 {
				d := gate.Decision{Effect: gate.Effect(random.IntN(3)), Reason: fmt.Sprintf("r%d", random.IntN(3))}
				if random.IntN(6) == 0 {
					d.Err = errTold
				}
				answers[fmt.Sprint(r)] = d
			}
			own := told{name: fmt.Sprintf("p%d", i), answers: answers}
			if random.IntN(2) == 0 {
				phases = append(phases, &own)
			} else {
				phases = append(phases, &toldBatch{told: own})
			}
		}
		chain := gate.NewChain(phases...)
		var rs []gate.Request
		for r := range 8 {
			rs = append(rs, gate.Request{Exposed: fmt.Sprint(r), Identity: gate.NewIdentity(gate.Identity{})})
		}
		rs[random.IntN(8)].Identity = nil
		all := chain.DecideAll(t.Context(), rs)
		for i := range rs {
			one := chain.Decide(t.Context(), &rs[i])
			why, _ := chain.Explain(t.Context(), &rs[i])
			if diff := cmp.Diff(one, all[i], cmp.Comparer(sameError)); diff != "" {
				t.Fatalf("chain %d, request %d (-one +all):\n%s", n, i, diff)
			}
			if diff := cmp.Diff(one, why, cmp.Comparer(sameError)); diff != "" {
				t.Fatalf("chain %d, request %d (-one +explained):\n%s", n, i, diff)
			}
			if (one.Err != nil) && one.Effect != gate.Deny {
				t.Fatalf("chain %d: an error that does not deny: %+v", n, one)
			}
		}
	}
}

func sameError(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}

// A phase that panics, or answers too little, could not decide, which denies.
func TestBrokenPhasesDeny(t *testing.T) {
	allow := gate.Decision{Effect: gate.Allow}
	rs := []gate.Request{{Exposed: "0", Identity: gate.NewIdentity(gate.Identity{})}, {Exposed: "0", Identity: gate.NewIdentity(gate.Identity{})}}
	for name, p := range map[string]gate.Phase{
		"panics":           &told{name: "p", panics: true},
		"panics together":  &toldBatch{told: told{name: "p", panics: true}},
		"answers too few":  &toldBatch{told: told{name: "p", answers: map[string]gate.Decision{"0": allow}}, short: true},
		"an unknown value": &told{name: "p", answers: map[string]gate.Decision{"0": {Effect: 7}}},
	} {
		for _, d := range gate.NewChain(&told{name: "before", answers: map[string]gate.Decision{"0": allow}}, p).DecideAll(t.Context(), rs) {
			if d.Effect != gate.Deny || d.Phase != "p" || name != "an unknown value" && (d.Err == nil || d.Reason != "policy_error") {
				t.Errorf("%s: %+v", name, d)
			}
		}
	}
	var none *gate.Chain
	for _, d := range append(none.DecideAll(t.Context(), rs), (&gate.Chain{}).DecideAll(t.Context(), rs)...) {
		if d.Effect != gate.Deny {
			t.Errorf("no chain: %+v", d)
		}
	}
}
