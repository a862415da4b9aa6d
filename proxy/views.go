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
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/findview"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// Decided takes the news that the gate may decide otherwise from now on, though
// nothing of what is configured or offered has changed. Clients are told of
// lists that are others for them, and no earlier result is reused. It does not block.
func (g *Gateway) Decided() {
	g.reused.Clear()
	signal(g.decided)
}

// listener is a client that is told of changes of lists.
type listener interface{ listChanged(method string) }

// clientIdentity is a client with the rights of one of its recipients.
type clientIdentity struct {
	client listener
	rights string
}

// listDigests stand for what a client may view of the lists, by the notification of
// each. A list about which the gate could not decide has none.
type listDigests map[string]uint64

// watchDecisions tells clients of lists that the gate has changed for them, until
// the context ends. It has a goroutine of its own, so that a slow gate delays
// nothing else.
func (g *Gateway) watchDecisions(ctx context.Context) {
	known := make(map[clientIdentity]listDigests)
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.decided:
		}
		known = g.announceDecisions(ctx, known)
		select { // what follows at once is gathered into one more pass
		case <-time.After(rebuildDelay):
		case <-ctx.Done():
			return
		}
	}
}

// announceDecisions compares what every client may view with what was known before
// and returns what is known now. A client of which nothing was known is told: it
// may have listed before. One about whom the gate cannot decide is not told. Where several
// identities hear for a client, it is told if the list has changed for all of them.
func (g *Gateway) announceDecisions(ctx context.Context, known map[clientIdentity]listDigests) map[clientIdentity]listDigests {
	snap := g.snapshot.Load()
	now := make(map[clientIdentity]listDigests)
	made := make(map[audience]listDigests)
	changed := func(client listener, id *gate.Identity, scope Scope, features clientFeatures) map[string]bool {
		who := audience{snap.Chain.ViewClass(id), scope, features}
		next, ok := made[who]
		if !ok {
			next = snap.digests(ctx, id, who)
			made[who] = next
		}
		as, methods := clientIdentity{client, id.Rights()}, make(map[string]bool)
		before := known[as]
		now[as] = make(listDigests)
		for _, kind := range listKinds {
			method := kind.Changed()
			old, had := before[method]
			digest, decided := next[method]
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
	told := false
	tell := func(client listener, hearers []*gate.Identity, scope Scope, features clientFeatures) {
		all := make([]map[string]bool, 0, len(hearers))
		for _, id := range hearers {
			all = append(all, changed(client, id, scope, features))
		}
		for _, kind := range listKinds {
			if !slices.ContainsFunc(all, func(methods map[string]bool) bool { return !methods[kind.Changed()] }) {
				client.listChanged(kind.Changed())
				told = true
			}
		}
	}
	for _, s := range g.sessions.list() {
		tell(s, s.recipients(), s.scope, s.clientFeatures())
	}
	for _, l := range g.listens.list() {
		tell(l, []*gate.Identity{l.x.Identity}, l.x.Scope, modernFeatures)
	}
	if told && g.opts.ListsChanged != nil {
		g.opts.ListsChanged()
	}
	return now
}

// digests returns what a caller of an audience may view of every list.
func (s *Snapshot) digests(ctx context.Context, id *gate.Identity, who audience) listDigests {
	digests := make(listDigests)
	undecided := make(map[string]bool)
	for _, kind := range mcp.Kinds {
		var h maphash.Hash
		h.SetSeed(digestSeed)
		for r, d := range s.views(ctx, id, who.scope, s.listed(s.catalogOf(id, who.features), who.scope, kind)) {
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

// views asks the gate which of some routes the caller may know of.
func (s *Snapshot) views(ctx context.Context, id *gate.Identity, scope Scope, routes []*Route) iter.Seq2[*Route, gate.Decision] {
	return gate.Views(ctx, s.Chain, id, scope.Capsule, routes, func(r *Route) *gate.Capability { return r.Capability })
}

// audienceViews keeps for a moment what the searches of an audience may find. An audience
// that is not known is asked about once, however many of its searches wait. The zero value
// knows none. It is safe for concurrent use.
type audienceViews struct {
	mu     sync.Mutex
	known  map[audienceOf]*searchable
	making map[audienceOf]*viewInMaking
}

// audienceOf is an audience of one catalog and one index.
type audienceOf struct {
	audience
	snap  *Snapshot
	built *findview.Built[*gate.Capability]
}

// viewInMaking is a view that a search makes and others wait for.
type viewInMaking struct {
	done      chan struct{} // closed at the end
	made      *searchable
	err       error
	abandoned bool // its search has ended before
}

// searchable is what an audience may view, as it was at a time.
type searchable struct {
	*find.View
	routes []*Route       // by their number in the index; nil for what it may not view
	held   map[heldOf]int // how much of what is held the audience might view
	at     time.Time
}

// heldOf is a server and a kind of which definitions wait to be accepted.
type heldOf struct {
	server string
	kind   mcp.Kind
}

// maxViews bounds the audiences whose view is kept.
const maxViews = 64

// clear forgets all views.
func (a *audienceViews) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known = nil
}

// get returns the view of an audience, from work where none is known.
func (a *audienceViews) get(ctx context.Context, who audienceOf, work func() (*searchable, error)) (*searchable, error) {
	for {
		v, m, first := a.join(who)
		switch {
		case v != nil:
			return v, nil
		case first:
			return a.make(ctx, who, m, work)
		}
		select {
		case <-m.done:
			if !m.abandoned {
				return m.made, m.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// join returns the view of an audience, or else the one in making. first is true for
// whoever has to make it.
func (a *audienceViews) join(who audienceOf) (v *searchable, m *viewInMaking, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v = a.known[who]; v != nil && time.Since(v.at) < maxDecisionAge {
		return v, nil, false
	}
	if m = a.making[who]; m != nil {
		return nil, m, false
	}
	m = &viewInMaking{done: make(chan struct{}), abandoned: true}
	if a.making == nil {
		a.making = make(map[audienceOf]*viewInMaking)
	}
	a.making[who] = m
	return nil, m, true
}

func (a *audienceViews) make(ctx context.Context, who audienceOf, m *viewInMaking, work func() (*searchable, error)) (*searchable, error) {
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.making, who)
		if m.made != nil {
			a.keep(who, m.made)
		}
		close(m.done)
	}()
	m.made, m.err = work()
	m.abandoned = ctx.Err() != nil
	return m.made, m.err
}

// keep keeps a view for the next searches of its audience; mu is held.
func (a *audienceViews) keep(who audienceOf, v *searchable) {
	for other, old := range a.known {
		if len(a.known) >= maxViews || v.at.Sub(old.at) >= maxDecisionAge {
			delete(a.known, other)
		}
	}
	if a.known == nil {
		a.known = make(map[audienceOf]*searchable)
	}
	a.known[who] = v
}

// view returns what a caller may view. It may be a second old, so that what is shown of
// it has to be asked about again.
func (f *finder) view(ctx context.Context, snap *Snapshot, x *Exchange) (*searchable, error) {
	built := f.index.Current()
	if built == nil {
		return nil, nil
	}
	features := modernFeatures
	if snap.varies() {
		features = x.features()
	}
	who := audienceOf{audience{snap.Chain.ViewClass(x.Identity), x.Scope, features}, snap, built}
	return f.views.get(ctx, who, func() (*searchable, error) { return snap.searchable(ctx, x, features, built) })
}

// searchable returns what a caller may view and what an index has.
func (s *Snapshot) searchable(ctx context.Context, x *Exchange, features clientFeatures, built *findview.Built[*gate.Capability]) (*searchable, error) {
	v := &searchable{routes: make([]*Route, built.Len()), held: make(map[heldOf]int), at: time.Now()}
	var held []*Route
	catalog, numbers := s.catalogOf(x.Identity, features), built.Numbers()
	for _, kind := range mcp.Kinds {
		for r, d := range s.views(ctx, x.Identity, x.Scope, x.Scope.of(catalog.lists[kind].entries)) {
			switch {
			case d.Err != nil && !d.Undecidable():
				return nil, refusal.Undecided(d)
			case d.Effect != gate.Allow:
				if s.held(x.Identity, x.Scope, r) {
					held = append(held, r)
				}
			default:
				if i, ok := numbers.Find(r.Capability, kind, r.Exposed); ok {
					v.routes[i] = r
				}
			}
		}
	}
	for r, d := range gate.Views(ctx, s.accepting, x.Identity, x.Scope.Capsule, held, func(r *Route) *gate.Capability { return r.Capability }) {
		if d.Err == nil && d.Effect == gate.Allow {
			v.held[heldOf{r.Server, r.Kind}]++
		}
	}
	v.View = built.View(func(item int) bool { return v.routes[item] != nil })
	return v, nil
}

// held reports whether the registry keeps a route from a caller only until somebody has
// accepted its definition.
func (s *Snapshot) held(id *gate.Identity, scope Scope, r *Route) bool {
	if s.registry == nil {
		return false
	}
	q := r.Request(gate.View, id, scope.Capsule)
	return s.registry.Held(&q)
}
