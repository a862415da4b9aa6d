package gate

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// batch is how many items of a list the phases are asked about at once.
const batch = 1000

// Views decides which items of a list a caller may view; of returns the capability that
// an item stands for, always the same pointer for one item. Effects may come from the
// cache, without reasons; see [Part.ViewClass].
func Views[Item any](ctx context.Context, c *Chain, id *Identity, capsule string, items []Item, of func(Item) *Capability) iter.Seq2[Item, Decision] {
	return func(yield func(Item, Decision) bool) {
		for some := range slices.Chunk(items, batch) {
			capabilities := make([]*Capability, len(some))
			for i, item := range some {
				capabilities[i] = of(item)
			}
			made, _ := c.decideAll(ctx, questionsAbout(id, capsule, capabilities))
			for i, d := range made {
				if !yield(some[i], *d) {
					return
				}
			}
		}
	}
}

// DecideAll is [Chain.Decide] for many requests, which all have the identity
// and the action of the first. It does not use the cache.
func (c *Chain) DecideAll(ctx context.Context, rs []Request) []Decision {
	decisions := make([]Decision, len(rs))
	known := make([]int, 0, len(rs)) // indexes of the requests with an identity
	for i := range rs {
		if decisions[i] = undecided(); rs[i].Identity != nil {
			known = append(known, i)
		}
	}
	q := questions{n: len(known), request: func(n int) Request { return rs[known[n]] }}
	made, _ := c.decideAll(ctx, &q)
	for n, d := range made {
		decisions[known[n]] = *d
	}
	return decisions
}

// questions are requests of one caller with one action.
type questions struct {
	n            int
	request      func(i int) Request
	capabilities []*Capability // by which decisions are cached; nil: they are not
}

// questionsAbout asks whether a caller may view some capabilities.
func questionsAbout(id *Identity, capsule string, capabilities []*Capability) *questions {
	return &questions{len(capabilities), func(i int) Request { return capabilities[i].Request(View, id, capsule) }, capabilities}
}

// verdicts are the decisions on requests so far.
type verdicts struct {
	of    []*Decision // never changed, but replaced
	ended []bool      // by request: no further phase is asked
	left  []int       // indexes of the requests that have not ended
	until time.Time   // when the first of the cached decisions among them expires
}

// The verdicts of which nothing but the effect is known, and the one before any phase.
var (
	allowed = &Decision{Effect: Allow}
	denied  = &Decision{}
	none    = &Decision{Reason: noRule}
)

// decideAll asks each phase about all requests that none before it has denied. The
// decisions may be cached until the time that it returns.
func (c *Chain) decideAll(ctx context.Context, q *questions) ([]*Decision, time.Time) {
	v := verdicts{of: make([]*Decision, q.n), ended: make([]bool, q.n), left: make([]int, q.n), until: time.Now().Add(viewTime)}
	for i := range v.of {
		v.of[i], v.left[i] = none, i
	}
	if c == nil || q.n == 0 {
		return v.of, v.until
	}
	first := q.request(0)
	if !c.decidesFor(first.Identity) {
		return v.of, v.until
	}
	for part := range c.parts {
		c.pass(ctx, part, q, &first, &v)
	}
	return v.of, v.until
}

// pass asks one phase about the requests that are left.
func (c *Chain) pass(ctx context.Context, part int, q *questions, first *Request, v *verdicts) {
	p := &c.parts[part]
	key, cacheable := listKey{part: part, capsule: first.Capsule}, false
	if c.cache != nil && q.capabilities != nil && p.ViewClass != nil {
		key.class, cacheable = p.ViewClass(first.Identity)
	}
	unknown := v.left
	if cacheable {
		unknown = c.cache.list(key).judge(q, v)
	}
	if len(unknown) > 0 {
		asked := time.Now()
		made := p.checkAll(ctx, q, unknown)
		effects := make(map[*Capability]Effect)
		for n, i := range unknown {
			next := *v.of[i]
			v.ended[i] = judge(p, &next, made[n], made[n].Err)
			v.of[i] = &next
			switch {
			case !cacheable || next.Err != nil:
			case v.ended[i]:
				effects[q.capabilities[i]] = Deny
			default:
				effects[q.capabilities[i]] = made[n].Effect
			}
		}
		// What was decided while the rules changed is not known to be of either.
		if cacheable {
			if again, ok := p.ViewClass(first.Identity); ok && again == key.class {
				c.cache.putList(key, effects, asked)
			}
		}
	}
	v.left = slices.DeleteFunc(v.left, func(i int) bool { return v.ended[i] })
}

// judge adds the cached decisions to the verdicts, which expire when they do, and returns
// the requests of which nothing is cached.
func (l *cachedList) judge(q *questions, v *verdicts) (unknown []int) {
	if l == nil {
		return v.left
	}
	if l.until.Before(v.until) {
		v.until = l.until
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, i := range v.left {
		switch effect, known := l.items[q.capabilities[i]]; {
		case !known:
			unknown = append(unknown, i)
		case effect == Allow:
			v.of[i] = allowed
		case effect == Deny:
			v.of[i], v.ended[i] = denied, true
		}
	}
	return unknown
}

// checkAll asks a phase about some requests. A phase that could not decide about one
// has set the Err of its decision.
func (p *Part) checkAll(ctx context.Context, q *questions, asked []int) []Decision {
	if p.CheckAll == nil || len(asked) < 2 {
		decisions := make([]Decision, len(asked))
		for n, i := range asked {
			r, err := q.request(i), error(nil)
			decisions[n], err = check(ctx, p, &r)
			if err != nil {
				decisions[n].Err = err
			}
		}
		return decisions
	}
	requests := make([]Request, len(asked))
	for n, i := range asked {
		requests[n] = q.request(i)
	}
	decisions, err := checkAll(ctx, p, requests)
	if err == nil && len(decisions) != len(requests) {
		err = fmt.Errorf("%d decisions for %d requests", len(decisions), len(requests))
	}
	if err != nil {
		all := make([]Decision, len(requests))
		copy(all, decisions)
		for n := range all {
			all[n].Err = err
		}
		return all
	}
	return decisions
}

func checkAll(ctx context.Context, p *Part, rs []Request) (ds []Decision, err error) {
	defer caught(&err)
	return p.CheckAll(ctx, rs)
}
