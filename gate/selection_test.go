package gate_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
)

func TestViewedAll(t *testing.T) {
	person := func(persona, subject string) *gate.Identity {
		return gate.NewIdentity(gate.Identity{Principal: gate.Principal{Subject: subject}, Persona: persona})
	}
	x := person("a", "x")
	type rig struct {
		*testing.T
		*classes
		chain *gate.Chain
		items *gate.Selection
	}
	want := func(r rig, id *gate.Identity, capsule string, want bool) {
		r.Helper()
		asked := len(r.asked)
		if got := r.chain.ViewedAll(id, capsule, r.items); got != want || len(r.asked) != asked {
			r.Errorf("%v: %v, asked %d times, want %v without asking", id, got, len(r.asked)-asked, want)
		}
	}
	all := list("a1", "a2")
	for name, test := range map[string]func(r rig){
		"not asked": func(r rig) { want(r, x, "", false) },
		"one class": func(r rig) {
			r.chain.LearnViews(r.Context(), x, "", r.items)
			want(r, x, "", true)
			want(r, person("a", "y"), "", true)
			want(r, person("b", "x"), "", false)
			want(r, x, "capsule", false)
			want(r, nil, "", false)
			if gate.NewChain(r.classes).ViewedAll(x, "", r.items) {
				r.Error("another chain knows it")
			}
		},
		"one is hidden": func(r rig) {
			r.items = gate.NewSelection(list("a1", "b1"))
			r.chain.LearnViews(r.Context(), x, "", r.items)
			want(r, x, "", false)
		},
		"undecided": func(r rig) {
			r.undecided = "a2"
			r.chain.LearnViews(r.Context(), x, "", r.items)
			want(r, x, "", false)
		},
		"other rules": func(r rig) {
			r.chain.LearnViews(r.Context(), x, "", r.items)
			r.rules++
			want(r, x, "", false)
		},
		"rules that change meanwhile": func(r rig) {
			r.during = func() { r.rules, r.during = r.rules+1, nil }
			r.chain.LearnViews(r.Context(), x, "", r.items)
			want(r, x, "", false)
			r.rules--
			want(r, x, "", false)
		},
		"not cacheable": func(r rig) {
			r.uncached = true
			r.chain.LearnViews(r.Context(), x, "", r.items)
			want(r, x, "", false)
			if len(r.asked) > 0 {
				r.Error("it was asked for nothing")
			}
		},
		"beside a phase without classes": func(r rig) {
			r.chain = gate.NewChain(&silent{}, r.classes)
			r.chain.LearnViews(r.Context(), x, "", r.items)
			want(r, x, "", false)
		},
		"a caller narrowed by capsules that no phase knows": func(r rig) {
			r.chain.LearnViews(r.Context(), x, "", r.items)
			narrowed := gate.NewIdentity(gate.Identity{Principal: x.Principal, Persona: "a", Capsules: []string{"c"}})
			want(r, narrowed, "", false)
		},
		"age": func(r rig) {
			r.chain.LearnViews(r.Context(), x, "", r.items)
			time.Sleep(gate.ViewTime - 1)
			want(r, x, "", true)
			time.Sleep(time.Nanosecond)
			want(r, x, "", false)
		},
		"of cached decisions": func(r rig) {
			named(r.T, r.chain, x, "", all)
			time.Sleep(gate.ViewTime / 2)
			r.chain.LearnViews(r.Context(), x, "", r.items)
			want(r, x, "", true)
			time.Sleep(gate.ViewTime / 2)
			want(r, x, "", false)
		},
		"no chain": func(r rig) {
			r.chain = nil
			r.chain.LearnViews(r.Context(), x, "", r.items)
			want(r, x, "", false)
		},
		"many classes": func(r rig) {
			for i := range 3 * gate.MaxSelectionClasses {
				r.chain.LearnViews(r.Context(), person(fmt.Sprint("a", i), "x"), "", r.items)
				want(r, person(fmt.Sprint("a", i), "x"), "", true)
			}
			if n := r.items.Classes(); n != gate.MaxSelectionClasses {
				r.Errorf("%d classes are remembered", n)
			}
			time.Sleep(gate.ViewTime)
			r.chain.LearnViews(r.Context(), x, "", r.items)
			if n := r.items.Classes(); n != 1 {
				r.Errorf("%d classes are remembered after their time", n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				phase := &classes{}
				test(rig{t, phase, gate.NewChain(phase), gate.NewSelection(all)})
			})
		})
	}
}
