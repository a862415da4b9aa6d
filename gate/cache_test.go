package gate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate"
)

// rules are those of a [ruled] phase at one moment, by exposed name.
type rules map[string]gate.Decision

// ruled is a phase whose rules change.
type ruled struct {
	name   string
	during func() // called while it decides; nil for nothing

	mu    sync.Mutex
	rules *rules
	asked int
}

func (p *ruled) Part() gate.Part { return gate.Part{Name: p.name, Check: p.Check} }

func (p *ruled) replace(next rules) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = &next
}

func (p *ruled) Check(_ context.Context, r *gate.Request) (gate.Decision, error) {
	p.mu.Lock()
	p.asked++
	d := (*p.rules)[r.Exposed]
	p.mu.Unlock()
	if p.during != nil {
		p.during()
	}
	if d.Err != nil {
		return gate.Decision{Reason: d.Reason}, d.Err
	}
	return d, nil
}

// cacheable is ruled with decisions that are cacheable.
type cacheable struct{ ruled }

func (p *cacheable) Part() gate.Part {
	return gate.Part{Name: p.name, Check: p.Check, Snapshot: p.Snapshot}
}

func (p *cacheable) Snapshot(r *gate.Request) any {
	if len(r.Args) > 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules
}

// heard is what a listener was told.
type heard []string

func (h *heard) Decided(phase string, d gate.Decision) {
	*h = append(*h, fmt.Sprintf("%s %v %s %v", phase, d.Effect, d.Reason, d.Err))
}

func randomRules(random *rand.Rand) rules {
	all := rules{}
	for name := range 4 {
		d := gate.Decision{Effect: gate.Effect(random.IntN(3)), Reason: fmt.Sprintf("r%d", random.IntN(100))}
		if random.IntN(8) == 0 {
			d.Err = errTold
		}
		if d.Effect == gate.Allow && random.IntN(2) == 0 {
			d.Obligations = []byte(`{"approval":true}`)
		}
		all[fmt.Sprint(name)] = d
	}
	return all
}

// What is cached is what would be decided now, and whoever listens hears the same,
// while rules change in any order.
func TestCachedDecisionsAreThoseOfNow(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for n := range 300 {
		var phases []gate.Phase
		var all []*ruled
		for i := range 1 + random.IntN(8) {
			own := &cacheable{ruled{name: fmt.Sprintf("p%d", i)}}
			all = append(all, &own.ruled)
			if random.IntN(4) == 0 {
				phases = append(phases, &own.ruled)
			} else {
				phases = append(phases, own)
			}
			own.replace(randomRules(random))
		}
		chain := gate.NewChain(phases...)
		for range 60 {
			if random.IntN(5) == 0 {
				all[random.IntN(len(all))].replace(randomRules(random))
			}
			r := gate.Request{Exposed: fmt.Sprint(random.IntN(4)), Identity: gate.NewIdentity(gate.Identity{})}
			if random.IntN(6) == 0 {
				r.Args = []byte("{}")
			}
			var cached, anew heard
			got := chain.DecideFor(t.Context(), &r, &cached)
			want := gate.NewChain(phases...).DecideFor(t.Context(), &r, &anew)
			if d := cmp.Diff(want, got, cmp.Comparer(sameError)); d != "" {
				t.Fatalf("chain %d (-now +cached):\n%s", n, d)
			}
			if d := cmp.Diff(anew, cached); d != "" {
				t.Fatalf("chain %d, what was heard (-now +cached):\n%s", n, d)
			}
			got.Demands = append(got.Demands, gate.Demand{Reason: "of this caller alone"})
		}
	}
}

func allowing() *cacheable {
	p := &cacheable{ruled{name: "p"}}
	p.replace(rules{"x": {Effect: gate.Allow}})
	return p
}

func askX(t *testing.T, c *gate.Chain, id gate.Identity) gate.Effect {
	t.Helper()
	return c.Decide(t.Context(), &gate.Request{Exposed: "x", Identity: gate.NewIdentity(id)}).Effect
}

func TestDecisionsAreCachedForATimeAndACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := allowing()
		c := gate.NewChain(p)
		asked := func(want int, when string) {
			t.Helper()
			if p.asked != want {
				t.Errorf("%s: asked %d times, want %d", when, p.asked, want)
			}
		}
		askX(t, c, gate.Identity{})
		askX(t, c, gate.Identity{})
		asked(1, "twice")
		askX(t, c, gate.Identity{Persona: "other"})
		asked(2, "somebody else")
		time.Sleep(gate.RequestTime - 1)
		askX(t, c, gate.Identity{})
		asked(2, "shortly before it is too old")
		time.Sleep(time.Nanosecond)
		askX(t, c, gate.Identity{})
		asked(3, "when it is too old")
		for i := range 10000 { // more than is cached
			askX(t, c, gate.Identity{Plan: fmt.Sprint(i)})
		}
		asked(10003, "10,000 more")
		askX(t, c, gate.Identity{})
		asked(10004, "forgotten for them")
	})
}

// A phase whose decisions are not cacheable is asked every time, and the phases around
// it are not.
func TestEachPhaseIsCachedByItself(t *testing.T) {
	before, between, behind := allowing(), allowing(), allowing()
	c := gate.NewChain(before, &between.ruled, behind)
	for range 3 {
		askX(t, c, gate.Identity{})
	}
	if before.asked != 1 || between.asked != 3 || behind.asked != 1 {
		t.Errorf("asked %d, %d and %d times, want 1, 3 and 1", before.asked, between.asked, behind.asked)
	}
	between.replace(rules{"x": {Effect: gate.Deny}})
	if got := askX(t, c, gate.Identity{}); got != gate.Deny {
		t.Errorf("behind a phase that denies now: %v", got)
	}
	behind.replace(rules{"x": {Effect: gate.Deny}})
	between.replace(rules{"x": {Effect: gate.Allow}})
	if got := askX(t, c, gate.Identity{}); got != gate.Deny {
		t.Errorf("in front of a phase that denies now: %v", got)
	}
}

// A decision is cached for its own time, whatever else is cached after it.
func TestCachedDecisionsAreNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := allowing(), allowing()
		c := gate.NewChain(first, second)
		askX(t, c, gate.Identity{})
		for range 3 {
			time.Sleep(2 * gate.RequestTime / 5)
			second.replace(rules{"x": {Effect: gate.Allow}})
			askX(t, c, gate.Identity{})
		}
		if first.asked != 2 || second.asked != 4 {
			t.Errorf("asked %d and %d times, want 2 and 4", first.asked, second.asked)
		}
	})
}

// An allow that was decided while the rules changed is not used again.
func TestDecisionsOfChangingRulesAreNotCached(t *testing.T) {
	p := allowing()
	c := gate.NewChain(p)
	p.during = func() { p.replace(rules{"x": {Effect: gate.Deny}}) }
	if got := askX(t, c, gate.Identity{}); got != gate.Allow {
		t.Fatalf("under the rules before: %v", got)
	}
	p.during = nil
	if got := askX(t, c, gate.Identity{}); got != gate.Deny {
		t.Errorf("under the rules after: %v", got)
	}
}

// Decisions are made and cached by many at once.
func TestCachedDecisionsAtOnce(t *testing.T) {
	p := allowing()
	c := gate.NewChain(p)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 500 {
				id := gate.Identity{Plan: fmt.Sprint(n % 7)}
				if i == 0 && n%50 == 0 {
					p.replace(rules{"x": {Effect: gate.Allow}})
				}
				if got := c.Decide(t.Context(), &gate.Request{Exposed: "x", Identity: gate.NewIdentity(id)}); got.Effect != gate.Allow {
					t.Errorf("denied: %+v", got)
				}
			}
		})
	}
	wg.Wait()
}
