package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// classes is a phase whose callers view what is named after their persona.
type classes struct {
	asked    []string // "persona name", in order
	rules    int
	unclear  string // name about which it cannot decide
	restless bool   // its class is another every time
	meet     func() // called while it decides
}

func (c *classes) Part() gate.Part {
	return gate.Part{Name: "classes", Check: c.Check, ViewClass: c.ViewClass}
}

func (c *classes) Check(_ context.Context, r *gate.Request) (gate.Decision, error) {
	c.asked = append(c.asked, r.Identity.Persona+" "+r.Exposed)
	if c.meet != nil {
		c.meet()
	}
	if r.Exposed == c.unclear {
		return gate.Decision{}, errors.New("unclear")
	}
	if r.Exposed[0] == r.Identity.Persona[0] {
		return gate.Decision{Effect: gate.Allow}, nil
	}
	return gate.Decision{}, nil
}

func (c *classes) ViewClass(id *gate.Identity) string {
	if c.restless {
		c.rules++
	}
	return fmt.Sprint(c.rules, id.Persona)
}

// silent is a phase that says nothing, and cannot tell callers apart.
type silent struct{}

func (s silent) Part() gate.Part { return gate.Part{Name: "silent", Check: s.Check} }
func (silent) Check(context.Context, *gate.Request) (gate.Decision, error) {
	return gate.Decision{Effect: gate.Abstain}, nil
}

func TestKeptViews(t *testing.T) {
	routes := []*Route{{Kind: mcp.Tool, Exposed: "a1"}, {Kind: mcp.Tool, Exposed: "b1"}, {Kind: mcp.Tool, Exposed: "a2"}}
	person := func(persona, subject string) *gate.Identity {
		return gate.NewIdentity(gate.Identity{Principal: gate.Principal{Subject: subject}, Persona: persona})
	}
	type rig struct {
		*testing.T
		*classes
		snap *Snapshot
		rest func(time.Duration)
	}
	// want lists and tells whether the phase was asked about as much.
	want := func(r rig, id *gate.Identity, scope Scope, names []string, asked int) {
		r.Helper()
		r.asked = nil
		var got []string
		for route, d := range r.snap.views(r.Context(), id, scope, routes) {
			if d.Err == nil && d.Effect == gate.Allow {
				got = append(got, route.Exposed)
			}
		}
		if !slices.Equal(got, names) || len(r.asked) != asked {
			r.Errorf("%v views %v, want %v; asked %v, want %d", id, got, names, r.asked, asked)
		}
	}
	a, main := []string{"a1", "a2"}, Scope{}
	for name, test := range map[string]func(r rig){
		"one class": func(r rig) {
			want(r, person("a", "x"), main, a, 3)
			want(r, person("a", "y"), main, a, 0)
			want(r, person("b", "x"), main, []string{"b1"}, 3)
			want(r, person("a", "x"), main, a, 0)
		},
		"endpoints": func(r rig) {
			want(r, person("a", "x"), main, a, 3)
			want(r, person("a", "x"), Scope{Capsule: "c"}, a, 3)
		},
		"other rules": func(r rig) {
			want(r, person("a", "x"), main, a, 3)
			r.rules++
			want(r, person("a", "x"), main, a, 3)
		},
		"rules that change meanwhile": func(r rig) {
			r.meet = func() { r.rules, r.meet = r.rules+1, nil }
			want(r, person("a", "x"), main, a, 3)
			r.rules--
			want(r, person("a", "x"), main, a, 3)
		},
		"undecided": func(r rig) {
			r.unclear = "a1"
			want(r, person("a", "x"), main, []string{"a2"}, 3)
			want(r, person("a", "x"), main, []string{"a2"}, 1)
			r.unclear = ""
			want(r, person("a", "x"), main, a, 1)
			want(r, person("a", "x"), main, a, 0)
		},
		"restless": func(r rig) {
			r.restless = true
			want(r, person("a", "x"), main, a, 3)
			want(r, person("a", "x"), main, a, 3)
			if len(r.snap.viewCache.classes) != 0 {
				t.Error("classes are kept that never come again")
			}
		},
		"no class": func(r rig) {
			r.snap.Chain = gate.NewChain(silent{}, r.classes)
			want(r, person("a", "x"), main, a, 3)
			want(r, person("a", "x"), main, a, 3)
		},
		"age": func(r rig) {
			want(r, person("a", "x"), main, a, 3)
			r.rest(viewAge - 1)
			want(r, person("a", "x"), main, a, 0)
			r.rest(1)
			want(r, person("a", "x"), main, a, 3)
		},
		"some of them": func(r rig) {
			for range r.snap.views(r.Context(), person("a", "x"), main, routes[1:2]) {
			}
			want(r, person("a", "x"), main, a, 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				phase := &classes{}
				snap := &Snapshot{Chain: gate.NewChain(phase), viewCache: newViewCache()}
				test(rig{t, phase, snap, func(d time.Duration) { time.Sleep(d) }})
			})
		})
	}
}

// However many classes there are, what is kept of them is bounded.
func TestKeptViewsAreBounded(t *testing.T) {
	t.Parallel()
	routes := make([]*Route, 1000)
	for i := range routes {
		routes[i] = &Route{Kind: mcp.Tool, Exposed: fmt.Sprint("a", i)}
	}
	phase := &classes{}
	snap := &Snapshot{Chain: gate.NewChain(phase), viewCache: newViewCache()}
	for i := range 2 * maxViews / len(routes) {
		id := gate.NewIdentity(gate.Identity{Persona: fmt.Sprint("a", i)})
		for range snap.views(t.Context(), id, Scope{}, routes) {
		}
		phase.asked = nil
	}
	size := 0
	for _, seen := range snap.viewCache.classes {
		size += 1 + len(seen.visible)
	}
	if size > maxViews || size < maxViews/2 || size != snap.viewCache.size {
		t.Errorf("%d decisions are kept, %d counted, of at most %d", size, snap.viewCache.size, maxViews)
	}
}
