package gate_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// viewRig is a selection, and a chain of one phase.
type viewRig struct {
	*testing.T
	*classes

	chain *gate.Chain
	items *gate.Selection
}

// want asks whether it is known that a caller may view all.
func (r viewRig) want(id *gate.Identity, capsule string, want bool) {
	r.Helper()
	asked := len(r.asked)
	if got := r.chain.ViewedAll(id, capsule, r.items); got != want || len(r.asked) != asked {
		r.Errorf("%v: %v, asked %d times, want %v without asking", id, got, len(r.asked)-asked, want)
	}
}

func person(persona, subject string) *gate.Identity {
	return gate.NewIdentity(gate.Identity{Principal: gate.Principal{Subject: subject}, Persona: persona})
}

func TestViewedAll(t *testing.T) {
	all := list("a1", "a2")
	for name, test := range viewedAll(all) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				phase := &classes{}
				test(viewRig{t, phase, gate.NewChain(phase), gate.NewSelection(all)})
			})
		})
	}
}

// viewedAll are the tests of a selection of all, each for a bubble.
func viewedAll(all []*gate.Capability) map[string]func(viewRig) {
	x := person("a", "x")
	return map[string]func(viewRig){
		"not asked": func(r viewRig) { r.want(x, "", false) },
		"one class": func(r viewRig) {
			r.chain.LearnViews(r.Context(), x, "", r.items)
			r.want(x, "", true)
			r.want(person("a", "y"), "", true)
			r.want(person("b", "x"), "", false)
			r.want(x, "capsule", false)
			r.want(nil, "", false)
			if gate.NewChain(r.classes).ViewedAll(x, "", r.items) {
				r.Error("another chain knows it")
			}
		},
		"one is hidden": func(r viewRig) {
			r.items = gate.NewSelection(list("a1", "b1"))
			r.chain.LearnViews(r.Context(), x, "", r.items)
			r.want(x, "", false)
		},
		"undecided": func(r viewRig) {
			r.undecided = "a2"
			r.chain.LearnViews(r.Context(), x, "", r.items)
			r.want(x, "", false)
		},
		"other rules": func(r viewRig) {
			r.chain.LearnViews(r.Context(), x, "", r.items)
			r.rules++
			r.want(x, "", false)
		},
		"rules that change meanwhile": func(r viewRig) {
			r.during = func() { r.rules, r.during = r.rules+1, nil }
			r.chain.LearnViews(r.Context(), x, "", r.items)
			r.want(x, "", false)
			r.rules--
			r.want(x, "", false)
		},
		"not cacheable": func(r viewRig) {
			r.uncached = true
			r.chain.LearnViews(r.Context(), x, "", r.items)
			r.want(x, "", false)
			if len(r.asked) > 0 {
				r.Error("it was asked for nothing")
			}
		},
		"beside a phase without classes": func(r viewRig) {
			r.chain = gate.NewChain(&silent{}, r.classes)
			r.chain.LearnViews(r.Context(), x, "", r.items)
			r.want(x, "", false)
		},
		"a caller narrowed by capsules that no phase knows": func(r viewRig) {
			r.chain.LearnViews(r.Context(), x, "", r.items)
			narrowed := gate.NewIdentity(gate.Identity{Principal: x.Principal, Persona: "a", Capsules: []string{"c"}})
			r.want(narrowed, "", false)
		},
		"age": func(r viewRig) {
			r.chain.LearnViews(r.Context(), x, "", r.items)
			time.Sleep(gate.ViewTime - 1)
			r.want(x, "", true)
			time.Sleep(time.Nanosecond)
			r.want(x, "", false)
		},
		"of cached decisions": func(r viewRig) {
			named(r.T, r.chain, x, "", all)
			time.Sleep(gate.ViewTime / 2)
			r.chain.LearnViews(r.Context(), x, "", r.items)
			r.want(x, "", true)
			time.Sleep(gate.ViewTime / 2)
			r.want(x, "", false)
		},
		"no chain": func(r viewRig) {
			r.chain = nil
			r.chain.LearnViews(r.Context(), x, "", r.items)
			r.want(x, "", false)
		},
		"many classes": func(r viewRig) {
			for i := range 3 * gate.MaxSelectionClasses {
				r.chain.LearnViews(r.Context(), person(fmt.Sprint("a", i), "x"), "", r.items)
				r.want(person(fmt.Sprint("a", i), "x"), "", true)
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
	}
}
