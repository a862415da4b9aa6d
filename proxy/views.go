package proxy

import (
	"context"
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Decided takes the news that the gate may decide otherwise from now on, though
// nothing of what is configured or offered has changed. Clients are told of
// lists that are others for them. It does not block.
func (g *Gateway) Decided() { signal(g.decided) }

// listener is a client that is told of changes of lists.
type listener interface{ listChanged(method string) }

// hearing is a client as one of the identities that hear for it.
type hearing struct {
	client listener
	rights string
}

// sight is what a client may view of the lists, as digests by the notification
// of each. A list about which the gate could not decide is not in it.
type sight map[string]uint64

// keepViews tells clients of lists that the gate has changed for them, until
// the context ends. It has a goroutine of its own, so that a slow gate delays
// nothing else.
func (g *Gateway) keepViews(ctx context.Context) {
	known := make(map[hearing]sight)
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.decided:
		}
		known = g.tellViews(ctx, known)
		select { // what follows at once is gathered into one more pass
		case <-time.After(rebuildDelay):
		case <-ctx.Done():
			return
		}
	}
}

// tellViews compares what every client may view with what was known before and
// returns what is known now. A client of which nothing was known is told: it
// may have listed before. One about whom the gate cannot decide is not. Where several
// identities hear for a client, it is told of what is another for all of them.
func (g *Gateway) tellViews(ctx context.Context, known map[hearing]sight) map[hearing]sight {
	snap := g.snapshot.Load()
	now := make(map[hearing]sight)
	passes := make(map[audience]sight)
	changed := func(client listener, id *gate.Identity, scope Scope, features clientFeatures) map[string]bool {
		who := audience{snap.Chain.ViewClass(id), scope, features}
		seen, ok := passes[who]
		if !ok {
			seen = snap.sight(ctx, id, who)
			passes[who] = seen
		}
		as, methods := hearing{client, id.Rights()}, make(map[string]bool)
		before := known[as]
		now[as] = make(sight)
		for _, kind := range listKinds {
			method := kind.Changed()
			old, had := before[method]
			digest, decided := seen[method]
			switch {
			case !decided && had:
				now[as][method] = old
			case decided:
				now[as][method] = digest
				methods[method] = !had || old != digest
			}
		}
		return methods
	}
	tell := func(client listener, hearers []*gate.Identity, scope Scope, features clientFeatures) {
		all := make([]map[string]bool, 0, len(hearers))
		for _, id := range hearers {
			all = append(all, changed(client, id, scope, features))
		}
		for _, kind := range listKinds {
			if !slices.ContainsFunc(all, func(methods map[string]bool) bool { return !methods[kind.Changed()] }) {
				client.listChanged(kind.Changed())
			}
		}
	}
	for _, s := range g.sessions.list() {
		tell(s, s.recipients(), s.scope, s.clientFeatures())
	}
	for _, l := range g.listens.list() {
		tell(l, []*gate.Identity{l.x.Identity}, l.x.Scope, modernFeatures)
	}
	return now
}

// sight returns what a caller of an audience may view of every list.
func (s *Snapshot) sight(ctx context.Context, id *gate.Identity, who audience) sight {
	digests := make(sight)
	undecided := make(map[string]bool)
	for _, kind := range mcp.Kinds {
		var h maphash.Hash
		h.SetSeed(digestSeed)
		for r, d := range s.views(ctx, id, who.scope, who.scope.of(s.catalogOf(id, who.features).lists[kind].entries)) {
			switch {
			case d.Err != nil && !d.Undecidable():
				undecided[kind.Changed()] = true
			case d.Effect == gate.Allow:
				h.WriteString(r.Exposed)
				h.WriteByte(0)
			}
		}
		digests[kind.Changed()] = 31*digests[kind.Changed()] + h.Sum64() // resources and templates share one
	}
	for method := range undecided {
		delete(digests, method)
	}
	return digests
}

const (
	// batch is how many capabilities the gate is asked about at once.
	batch = 1000
	// viewAge is how old a decision on a view may be that is used again.
	viewAge = 10 * time.Second
	// maxViews bounds the decisions on views that are kept, each class one more.
	maxViews = 1 << 17
)

// views asks the gate which of some routes the caller may know of: in batches
// where a phase gains by them, else one by one, in no memory of its own. Callers
// of one view class are asked about once.
func (s *Snapshot) views(ctx context.Context, id *gate.Identity, scope Scope, routes []*Route) iter.Seq2[*Route, gate.Decision] {
	if seen := s.viewCache.class(s.Chain, id, scope); seen != nil {
		return s.viewsKept(ctx, seen, id, scope, routes)
	}
	return func(yield func(*Route, gate.Decision) bool) {
		if !s.Chain.Batches() {
			var question gate.Request // one for all
			for _, r := range routes {
				question = r.question(gate.View, id, scope)
				if !yield(r, s.Chain.Decide(ctx, &question)) {
					return
				}
			}
			return
		}
		for some := range slices.Chunk(routes, batch) {
			for i, d := range s.Chain.DecideAll(ctx, viewing(id, scope, some)) {
				if !yield(some[i], d) {
					return
				}
			}
		}
	}
}

// viewsKept is views for a class of callers.
func (s *Snapshot) viewsKept(ctx context.Context, seen *seenViews, id *gate.Identity, scope Scope, routes []*Route) iter.Seq2[*Route, gate.Decision] {
	return func(yield func(*Route, gate.Decision) bool) {
		for some := range slices.Chunk(routes, batch) {
			decisions, open := seen.find(some)
			if len(open) > 0 {
				made := s.Chain.DecideAll(ctx, viewing(id, scope, open))
				s.viewCache.put(seen, s.Chain, id, open, made)
				for i := range decisions {
					if decisions[i] == nil {
						decisions[i], made = &made[0], made[1:]
					}
				}
			}
			for i, d := range decisions {
				if !yield(some[i], *d) {
					return
				}
			}
		}
	}
}

// viewing are the questions whether a caller may view some routes.
func viewing(id *gate.Identity, scope Scope, routes []*Route) []gate.Request {
	questions := make([]gate.Request, len(routes))
	for i, r := range routes {
		questions[i] = r.question(gate.View, id, scope)
	}
	return questions
}

// viewCache are the decisions on the views of a snapshot by classes of callers,
// see [gate.Classifier]. What could not be decided is not kept. A nil one keeps
// nothing.
type viewCache struct {
	mu      sync.Mutex
	classes map[viewClass]*seenViews
	size    int // decisions and classes
}

// viewClass names callers at an endpoint who view the same there.
type viewClass struct{ class, capsule string }

// seenViews are the decisions for one class.
type seenViews struct {
	class viewClass
	until time.Time

	mu      sync.RWMutex
	visible map[*Route]bool
}

func newViewCache() *viewCache { return &viewCache{classes: make(map[viewClass]*seenViews)} }

// class returns what is kept for a caller; nil where nothing may be.
func (k *viewCache) class(c *gate.Chain, id *gate.Identity, scope Scope) *seenViews {
	if k == nil || id == nil || !c.Classifies() {
		return nil
	}
	key := viewClass{c.ViewClass(id), scope.Capsule}
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if seen := k.classes[key]; seen != nil && now.Before(seen.until) {
		return seen
	}
	if c.ViewClass(id) != key.class { // it is another every time
		return nil
	}
	seen := &seenViews{class: key, until: now.Add(viewAge), visible: make(map[*Route]bool)}
	k.drop(key)
	k.classes[key] = seen
	k.grow(1)
	return seen
}

// drop forgets a class; mu is held.
func (k *viewCache) drop(key viewClass) {
	if seen := k.classes[key]; seen != nil {
		k.size -= 1 + seen.size()
		delete(k.classes, key)
	}
}

// grow counts what was added and makes room; mu is held.
func (k *viewCache) grow(n int) {
	k.size += n
	for key := range k.classes { // whichever comes first
		if k.size <= maxViews {
			return
		}
		k.drop(key)
	}
}

// put keeps decisions that were made for a class, if its callers are still of
// it: rules that changed meanwhile decided for another.
func (k *viewCache) put(seen *seenViews, c *gate.Chain, id *gate.Identity, routes []*Route, made []gate.Decision) {
	if c.ViewClass(id) != seen.class.class {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.classes[seen.class] != seen {
		return
	}
	k.grow(seen.add(routes, made))
}

func (v *seenViews) size() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.visible)
}

// add keeps decisions and returns how many are new.
func (v *seenViews) add(routes []*Route, made []gate.Decision) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := len(v.visible)
	for i, d := range made {
		if d.Err == nil {
			v.visible[routes[i]] = d.Effect == gate.Allow
		}
	}
	return len(v.visible) - before
}

var (
	seenAllow = &gate.Decision{Effect: gate.Allow}
	seenDeny  = &gate.Decision{}
)

// find returns the decisions on some routes, nil for those that are not known,
// and the routes of those.
func (v *seenViews) find(routes []*Route) (decisions []*gate.Decision, open []*Route) {
	decisions = make([]*gate.Decision, len(routes))
	v.mu.RLock()
	defer v.mu.RUnlock()
	for i, r := range routes {
		switch visible, known := v.visible[r]; {
		case !known:
			open = append(open, r)
		case visible:
			decisions[i] = seenAllow
		default:
			decisions[i] = seenDeny
		}
	}
	return decisions, open
}
