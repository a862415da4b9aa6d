package proxy

import (
	"context"
	"hash/maphash"
	"slices"
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
		case <-time.After(gather):
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
	changed := func(client listener, id *gate.Identity, scope Scope, can answers) map[string]bool {
		who := audience{snap.Chain.ViewClass(id), scope, can}
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
	tell := func(client listener, hearers []*gate.Identity, scope Scope, can answers) {
		all := make([]map[string]bool, 0, len(hearers))
		for _, id := range hearers {
			all = append(all, changed(client, id, scope, can))
		}
		for _, kind := range listKinds {
			if !slices.ContainsFunc(all, func(methods map[string]bool) bool { return !methods[kind.Changed()] }) {
				client.listChanged(kind.Changed())
			}
		}
	}
	for _, s := range g.sessions.list() {
		tell(s, s.hearers(), s.scope, s.answers())
	}
	for _, l := range g.listens.list() {
		tell(l, []*gate.Identity{l.x.Identity}, l.x.Scope, answersModern)
	}
	return now
}

// sight returns what a caller of an audience may view of every list.
func (s *Snapshot) sight(ctx context.Context, id *gate.Identity, who audience) sight {
	digests := make(sight)
	undecided := make(map[string]bool)
	for _, kind := range mcp.Capabilities {
		var h maphash.Hash
		h.SetSeed(digestSeed)
		for r, d := range s.views(ctx, id, who.scope, who.scope.of(s.catalogOf(id, who.can).lists[kind].entries)) {
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
