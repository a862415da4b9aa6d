package proxy

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/result"
)

// Snapshot is what one request sees from its beginning to its end: the
// catalog, the gate and the limits of one generation. It is immutable.
type Snapshot struct {
	Chain   *gate.Chain
	Limiter *budget.Limiter

	arguments ArgumentChecker // nil checks nothing
	scopes    ScopeChecker    // nil asks for none
	approver  Approver        // nil asks nobody
	rates     RateLimiter     // nil has none
	class     func(r gate.Request, listed []byte) string
	recording Recording
	said      InstructionsKeeper
	pinned    *gate.Chain          // Chain as it was when the snapshot was made
	kept      *keptViews           // decisions of Chain; nil keeps none
	outputs   result.OutputChecker // nil checks nothing

	catalog  *Catalog            // the full one
	plain    catalogs            // by what a client can be asked
	overlays map[string]*Catalog // by principal key
}

const (
	// gather is how long changes of several servers are collected.
	gather = 10 * time.Millisecond
	// idsTime bounds the issuing of capability ids.
	idsTime = 5 * time.Second
)

// publisher makes snapshots and tells clients of what is another in them.
type publisher struct {
	g  *Gateway
	mu sync.Mutex // one rebuild at a time
}

// rebuild makes the next snapshot and tells the clients whose lists it
// changes.
func (pb *publisher) rebuild(ctx context.Context) {
	pb.g.publisher.mu.Lock()
	defer pb.g.publisher.mu.Unlock()
	old, config := pb.g.snapshot.Load(), pb.g.config.Load()
	var servers []*served
	for i := range config.Mounts {
		servers = append(servers, pb.serve(ctx, old, &config.Mounts[i]))
	}
	if config.Registry != nil {
		config.Registry.Record(ctx, offers(servers))
	}
	next := &Snapshot{
		Chain: config.Chain, Limiter: config.Limiter, arguments: config.Arguments, scopes: config.Scopes, approver: config.Approver, class: config.Class, recording: config.Recording,
		rates:   config.Rates,
		outputs: config.Outputs,
		pinned:  config.Chain.Pin(), kept: newKeptViews(), plain: newCatalogs(servers),
	}
	next.catalog = next.plain[answersModern]
	next.said, _ = config.Registry.(InstructionsKeeper)
	if config.Listed != nil {
		config.Listed(next.names())
	}
	inForce := func() { pb.g.snapshot.Store(next) }
	if config.Swap != nil {
		config.Swap(inForce)
	} else {
		inForce()
	}
	if n := len(next.catalog.shadowed); n > 0 && len(old.catalog.shadowed) != n {
		r := next.catalog.shadowed[0]
		pb.g.log.Warn("what is listed under names that are another's, or have one hash with many, is not offered",
			"server", r.Server, "names", n, "such_as", r.Original)
	}
	pb.announce(ctx, old, next)
	pb.g.first.update(servers)
}

// serve returns a mount as it is now; what has not changed is taken from the
// snapshot before.
func (pb *publisher) serve(ctx context.Context, old *Snapshot, m *Mount) *served {
	listing, _ := m.Backend.Listing()
	before := old.catalog.byServer[m.Backend.Name()].base()
	if before != nil && before.mount == m && before.listing == listing && !before.unnamed {
		return before
	}
	s := &served{mount: m, backend: m.Backend, listing: listing, hash: pb.g.opts.NameHash}
	if before != nil && before.backend == m.Backend {
		s.slots = before.slots
		s.slots.Resize(m.Concurrency, m.Queue)
	} else {
		s.slots = limit.NewConcurrency(m.Concurrency, m.Queue, pb.g.principals)
	}
	s.slots.Throttle(*pb.g.throttle.Load())
	s.others = beside(listing)
	ids, named := pb.capabilityIDs(ctx, m.Backend.Name(), listing)
	s.unnamed = !named
	s.render(ids)
	s.plain = s.newPlain(ids)
	s.twin = s.newTwin(ids)
	s.offer = s.offered()
	return s
}

// offered is what the server lists, for the registry.
func (s *served) offered() *gate.Offer {
	o := &gate.Offer{
		Server: s.backend.Name(), Namespace: s.mount.Namespace, Native: s.mount.Native,
		Confirmed: s.listing != nil && !s.listing.Stale,
	}
	if s.listing != nil {
		o.Instructions = &s.listing.Instructions
	}
	for _, kind := range mcp.Capabilities {
		routes := s.rendered[kind]
		for _, set := range [...]*served{s.plain, s.twin} {
			if set == nil {
				continue
			}
			routes = slices.Concat(routes, slices.DeleteFunc(slices.Clone(set.rendered[kind]), func(r *Route) bool {
				return slices.ContainsFunc(routes, func(other *Route) bool { return other.Original == r.Original })
			}))
		}
		for _, r := range routes {
			o.Items = append(o.Items, gate.Offered{
				Kind: kind, Original: r.Original, Exposed: r.Exposed, Plain: r.Plain, CapabilityID: r.CapabilityID, Definition: r.item,
				External: kind == mcp.Tool && s.mount.External[r.Original], StandIn: kind == mcp.Tool && s.standsIn(r.item),
			})
		}
	}
	if !o.Confirmed && len(o.Items) > 0 && !slices.ContainsFunc(o.Items, func(i gate.Offered) bool { return !i.StandIn }) {
		o.Instructions = nil // the server itself has not said anything yet
	}
	return o
}

func offers(servers []*served) []*gate.Offer {
	all := make([]*gate.Offer, len(servers))
	for i, s := range servers {
		all[i] = s.offer
	}
	return all
}

// capabilityIDs issues the ids of everything listed; ok is false where they
// cannot be had. Without them calls are made all the same; they are asked for
// again at the next change, of whatever that is.
func (pb *publisher) capabilityIDs(ctx context.Context, server string, l *mcp.Listing) (byKey map[CapabilityKey]string, ok bool) {
	if pb.g.opts.CapabilityIDs == nil || l == nil {
		return nil, true
	}
	var keys []CapabilityKey
	seen := make(map[CapabilityKey]bool)
	for _, set := range append([]*mcp.Listing{l}, beside(l)...) {
		for _, kind := range mcp.Capabilities {
			for i := range set.Items[kind] {
				key := CapabilityKey{server, kind.String(), set.Items[kind][i].Key}
				if !seen[key] {
					seen[key] = true
					keys = append(keys, key)
				}
			}
		}
	}
	if len(keys) == 0 {
		return nil, true
	}
	ctx, cancel := context.WithTimeout(ctx, idsTime)
	defer cancel()
	ids, err := pb.g.opts.CapabilityIDs(ctx, keys)
	if err != nil || len(ids) != len(keys) {
		pb.g.log.Warn("capability ids not issued", "server", server, "err", err)
		return nil, false
	}
	byKey = make(map[CapabilityKey]string, len(keys))
	for i, key := range keys {
		byKey[key] = ids[i]
	}
	return byKey, true
}

// Settle waits until what the backends offer at this moment is in the catalog.
func (g *Gateway) Settle(ctx context.Context) {
	for !g.publisher.current() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(gather / 2):
		}
	}
}

// current tells whether the snapshot holds the latest listings.
func (pb *publisher) current() bool {
	catalog := pb.g.snapshot.Load().catalog
	for i := range pb.g.config.Load().Mounts {
		b := pb.g.config.Load().Mounts[i].Backend
		listing, _ := b.Listing()
		if s := catalog.byServer[b.Name()].base(); s == nil || s.listing != listing {
			return false
		}
	}
	return true
}
