package proxy

import (
	"context"
	"hash/maphash"
	"iter"
	"slices"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
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
	return gate.Views(ctx, s.Chain, id, scope.Capsule, routes, func(r *Route) *gate.Capability { return &r.Capability })
}
