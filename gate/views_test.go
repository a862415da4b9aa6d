package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// classes is a phase whose callers view what is named after their persona.
type classes struct {
	asked     []string // "persona name", in order
	rules     int
	undecided string // name about which it cannot decide
	restless  bool   // its class is another every time
	uncached  bool   // it says that its decisions are not cacheable
	during    func() // called while it decides
}

func (c *classes) Part() gate.Part {
	return gate.Part{Name: "classes", Check: c.Check, ViewClass: c.ViewClass}
}

func (c *classes) Check(_ context.Context, r *gate.Request) (gate.Decision, error) {
	c.asked = append(c.asked, r.Identity.Persona+" "+r.Exposed)
	if c.during != nil {
		c.during()
	}
	if r.Exposed == c.undecided {
		return gate.Decision{}, errors.New("undecided")
	}
	if r.Exposed[0] == r.Identity.Persona[0] {
		return gate.Decision{Effect: gate.Allow}, nil
	}
	return gate.Decision{}, nil
}

func (c *classes) ViewClass(id *gate.Identity) (class string, cacheable bool) {
	if c.restless {
		c.rules++
	}
	return fmt.Sprint(c.rules, id.Persona), !c.uncached
}

// silent is a phase that says nothing, and cannot tell callers apart.
type silent struct{ asked int }

func (s *silent) Part() gate.Part { return gate.Part{Name: "silent", Check: s.Check} }

func (s *silent) Check(context.Context, *gate.Request) (gate.Decision, error) {
	s.asked++
	return gate.Decision{Effect: gate.Abstain}, nil
}

// named returns the items that a caller may view.
func named(t *testing.T, c *gate.Chain, id *gate.Identity, capsule string, items []*gate.Capability) []string {
	var names []string
	for i, d := range gate.Views(t.Context(), c, id, capsule, items, itself) {
		if d.Err == nil && d.Effect == gate.Allow {
			names = append(names, i.Exposed)
		}
	}
	return names
}

func itself(c *gate.Capability) *gate.Capability { return c }

func list(names ...string) []*gate.Capability {
	items := make([]*gate.Capability, len(names))
	for i, name := range names {
		items[i] = &gate.Capability{Kind: mcp.Tool, Exposed: name}
	}
	return items
}

func TestCachedViews(t *testing.T) {
	items := list("a1", "b1", "a2")
	person := func(persona, subject string) *gate.Identity {
		return gate.NewIdentity(gate.Identity{Principal: gate.Principal{Subject: subject}, Persona: persona})
	}
	type rig struct {
		*testing.T
		*classes
		chain *gate.Chain
		rest  func(time.Duration)
	}
	// want lists and tells whether the phase was asked about as much.
	want := func(r rig, id *gate.Identity, capsule string, names []string, asked int) {
		r.Helper()
		r.asked = nil
		got := named(r.T, r.chain, id, capsule, items)
		if !slices.Equal(got, names) || len(r.asked) != asked {
			r.Errorf("%v views %v, want %v; asked %v, want %d", id, got, names, r.asked, asked)
		}
	}
	a := []string{"a1", "a2"}
	for name, test := range map[string]func(r rig){
		"one class": func(r rig) {
			want(r, person("a", "x"), "", a, 3)
			want(r, person("a", "y"), "", a, 0)
			want(r, person("b", "x"), "", []string{"b1"}, 3)
			want(r, person("a", "x"), "", a, 0)
		},
		"endpoints": func(r rig) {
			want(r, person("a", "x"), "", a, 3)
			want(r, person("a", "x"), "c", a, 3)
		},
		"other rules": func(r rig) {
			want(r, person("a", "x"), "", a, 3)
			r.rules++
			want(r, person("a", "x"), "", a, 3)
		},
		"rules that change meanwhile": func(r rig) {
			r.during = func() { r.rules, r.during = r.rules+1, nil }
			want(r, person("a", "x"), "", a, 3)
			r.rules--
			want(r, person("a", "x"), "", a, 3)
		},
		"undecided": func(r rig) {
			r.undecided = "a1"
			want(r, person("a", "x"), "", []string{"a2"}, 3)
			want(r, person("a", "x"), "", []string{"a2"}, 1)
			r.undecided = ""
			want(r, person("a", "x"), "", a, 1)
			want(r, person("a", "x"), "", a, 0)
		},
		"restless": func(r rig) {
			r.restless = true
			want(r, person("a", "x"), "", a, 3)
			want(r, person("a", "x"), "", a, 3)
			if n, _, _ := r.chain.CachedLists(); n != 0 {
				r.Errorf("%d lists are cached that are never asked for again", n)
			}
		},
		"not cacheable": func(r rig) {
			r.uncached = true
			want(r, person("a", "x"), "", a, 3)
			want(r, person("a", "x"), "", a, 3)
		},
		"beside a phase without classes": func(r rig) {
			s := &silent{}
			r.chain = gate.NewChain(s, r.classes)
			want(r, person("a", "x"), "", a, 3)
			want(r, person("a", "x"), "", a, 0)
			if s.asked != 6 {
				r.Errorf("the phase without classes was asked %d times, want 6", s.asked)
			}
		},
		"behind a deny": func(r rig) {
			r.chain = gate.NewChain(r.classes, gate.Open{})
			want(r, person("a", "x"), "", a, 3)
			want(r, person("a", "x"), "", a, 0)
		},
		"age": func(r rig) {
			want(r, person("a", "x"), "", a, 3)
			r.rest(gate.ViewTime - 1)
			want(r, person("a", "x"), "", a, 0)
			r.rest(time.Nanosecond)
			want(r, person("a", "x"), "", a, 3)
		},
		"expired lists are dropped": func(r rig) {
			want(r, person("a", "x"), "", a, 3)
			want(r, person("b", "x"), "", []string{"b1"}, 3)
			r.rest(gate.ViewTime)
			want(r, person("a", "x"), "", a, 3)
			if lists, items, counted := r.chain.CachedLists(); lists != 1 || items != 3 || counted != 4 {
				r.Errorf("%d lists with %d items, %d counted", lists, items, counted)
			}
		},
		"some of them": func(r rig) {
			named(r.T, r.chain, person("a", "x"), "", items[1:2])
			want(r, person("a", "x"), "", a, 2)
		},
		"nobody": func(r rig) {
			want(r, nil, "", nil, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				phase := &classes{}
				test(rig{t, phase, gate.NewChain(phase), func(d time.Duration) { time.Sleep(d) }})
			})
		})
	}
}

// However many classes there are, what is cached of them is bounded.
func TestCachedViewsAreBounded(t *testing.T) {
	t.Parallel()
	var items []*gate.Capability
	for i := range 1000 {
		items = append(items, list(fmt.Sprint("a", i))...)
	}
	phase := &classes{}
	chain := gate.NewChain(phase)
	for i := range 2 * gate.MaxViews / len(items) {
		named(t, chain, gate.NewIdentity(gate.Identity{Persona: fmt.Sprint("a", i)}), "", items)
		phase.asked = nil
	}
	lists, n, counted := chain.CachedLists()
	if size := lists + n; size > gate.MaxViews || size < gate.MaxViews/2 || size != counted {
		t.Errorf("%d decisions are cached, %d counted, of at most %d", size, counted, gate.MaxViews)
	}
}

// classed is ruled with a class of callers for each of its rules.
type classed struct{ ruled }

func (p *classed) Part() gate.Part {
	return gate.Part{Name: p.name, Check: p.Check, ViewClass: p.ViewClass}
}

func (p *classed) ViewClass(*gate.Identity) (class string, cacheable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%p", p.rules), true
}

// What may be viewed is what would be decided now, while rules change in any order.
func TestCachedViewsAreThoseOfNow(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	items := list("0", "1", "2", "3", "4")
	id := gate.NewIdentity(gate.Identity{})
	for n := range 300 {
		var phases []gate.Phase
		var all []*ruled
		var past []*rules // which keeps each at its address
		for i := range 1 + random.IntN(5) {
			own := &classed{ruled{name: fmt.Sprintf("p%d", i)}}
			all = append(all, &own.ruled)
			if random.IntN(4) == 0 {
				phases = append(phases, &own.ruled)
			} else {
				phases = append(phases, own)
			}
			own.replace(randomRules(random))
		}
		chain := gate.NewChain(phases...)
		for range 40 {
			if random.IntN(4) == 0 {
				p := all[random.IntN(len(all))]
				past = append(past, p.rules)
				p.replace(randomRules(random))
			}
			for i, d := range gate.Views(t.Context(), chain, id, "", items, itself) {
				r := i.Request(gate.View, id, "")
				now := gate.NewChain(phases...).Decide(t.Context(), &r)
				if d.Effect != now.Effect || !sameError(d.Err, now.Err) {
					t.Fatalf("chain %d, item %s: %+v, now %+v", n, i.Exposed, d, now)
				}
			}
		}
		_ = past
	}
}

// Lists are decided and cached by many at once.
func TestCachedViewsAtOnce(t *testing.T) {
	p := &classed{ruled{name: "p"}}
	allow := rules{"x": {Effect: gate.Allow}, "y": {Effect: gate.Allow}}
	p.replace(allow)
	c := gate.NewChain(p)
	items := list("x", "y")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 300 {
				if i == 0 && n%50 == 0 {
					p.replace(allow)
				}
				id := gate.NewIdentity(gate.Identity{Plan: fmt.Sprint(n % 7)})
				if got := named(t, c, id, fmt.Sprint(n%3), items); len(got) != 2 {
					t.Errorf("views %v", got)
				}
			}
		})
	}
	wg.Wait()
}
