package proxy

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/findview"
	"github.com/toolgate/toolgate/proxy/firstlist"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/result"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// Snapshot is the catalog, the gate and the limits of one generation. A request uses
// one snapshot from beginning to end. It is immutable.
type Snapshot struct {
	Chain   *gate.Chain
	Limiter *budget.Limiter

	arguments ArgumentChecker // nil checks nothing
	scopes    ScopeChecker    // nil requires none
	approver  Approver        // nil asks nobody
	rates     RateLimiter     // nil limits nothing

	interceptors *intercept.Chain // nil asks nobody
	class        func(r gate.Request, listed []byte) string
	recording    Recording
	registry     Registry
	pinned       *gate.Chain          // Chain as it was when the snapshot was made
	accepting    *gate.Chain          // Chain as if every definition were accepted; for notes alone
	outputs      result.OutputChecker // nil checks nothing
	reusable     Reusable             // nil reuses nothing
	reusing      map[string]bool      // servers with tools whose results may be reused

	pins         func(capsule string) []string // nil pins nothing
	answerTokens int                           // of a search
	schemas      schemas.Mode                  // of endpoints that name none

	generation uint64 // of the configuration

	catalog    *Catalog            // the full one
	byFeatures catalogs            // by client features
	overlays   map[string]*Catalog // by principal key
}

const (
	// rebuildDelay is how long changes of several servers are collected.
	rebuildDelay = 10 * time.Millisecond
	// After a rebuild that took long, changes are collected rebuildShare times as long, up to
	// maxRebuildDelay, so that servers which change all the time take a part of one processor
	// only.
	rebuildShare, maxRebuildDelay = 4, 250 * time.Millisecond
	// capabilityIDTimeout bounds the issuing of capability ids in one rebuild, which
	// delays what the rebuild puts in force.
	capabilityIDTimeout = 5 * time.Second
)

// publisher makes snapshots and tells clients what they change.
type publisher struct {
	g  *Gateway
	mu sync.Mutex // one rebuild at a time
}

// awaited returns what is known of the servers for first lists.
func awaited(servers []*backendEntry) []firstlist.Server {
	all := make([]firstlist.Server, len(servers))
	for i, s := range servers {
		of := firstlist.Server{Name: s.backend.Name(), Fetched: s.mount.Fetched}
		switch listing, status := s.backend.Listing(); {
		case listing == nil && status.State == mcp.Starting:
			of.Awaited = !s.mount.SkipFirstListWait
		case listing != s.listing:
			of.Awaited, of.Fetched = true, false // its list is on the way into a snapshot
		default:
			of.Known = listing != nil && !s.mount.Native
		}
		all[i] = of
	}
	return all
}

// rebuild makes the next snapshot and tells the clients whose lists it changes.
func (pb *publisher) rebuild(ctx context.Context) {
	pb.mu.Lock()
	defer pb.mu.Unlock()
	old, config := pb.g.snapshot.Load(), pb.g.config.Load()
	var servers []*backendEntry
	issuing, cancel := context.WithTimeout(ctx, capabilityIDTimeout)
	defer cancel()
	for i := range config.Mounts {
		servers = append(servers, pb.entryFor(issuing, old, &config.Mounts[i]))
	}
	if config.Registry != nil {
		config.Registry.Record(ctx, offers(servers))
	}
	for i := range servers {
		servers[i] = servers[i].described()
	}
	if config.Offered != nil {
		config.Offered(offers(servers))
	}
	next := &Snapshot{
		Chain: config.Chain, Limiter: config.Limiter, arguments: config.Arguments, scopes: config.Scopes, approver: config.Approver, class: config.Class, recording: config.Recording,
		rates: config.Rates, interceptors: config.Interceptors, reusable: config.Reusable, reusing: reusing(config.Mounts), generation: config.generation,
		outputs: config.Outputs, pins: config.Pins, answerTokens: cmp.Or(config.AnswerTokens, findview.DefaultTokens), schemas: config.Schemas,
		pinned: config.Chain.Pin(), accepting: config.Chain.Without(gate.RegistryPhase), byFeatures: newCatalogs(servers, &old.byFeatures),
	}
	next.catalog = next.byFeatures[modernFeatures]
	next.registry = config.Registry
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
		pb.g.log.Warn("some listed items are not offered: their names belong to others, or share a hash with too many",
			"server", r.Server, "names", n, "such_as", r.Original)
	}
	pb.g.finder.update(next)
	pb.announce(ctx, old, next)
	pb.g.first.Update(awaited(servers))
}

// entryFor returns the entry of a mount as it is now. It reuses the old snapshot's
// entry if nothing has changed.
func (pb *publisher) entryFor(ctx context.Context, old *Snapshot, m *Mount) *backendEntry {
	listing, _ := m.Backend.Listing()
	before := old.catalog.byServer[m.Backend.Name()].base()
	if before != nil && before.mount == m && before.listing == listing && !before.unnamed {
		return before
	}
	s := &backendEntry{mount: m, backend: m.Backend, listing: listing, hash: pb.g.opts.NameHash}
	if before != nil && before.backend == m.Backend {
		s.permits = before.permits
		s.permits.Resize(m.Concurrency, m.Queue)
	} else {
		s.permits = limit.NewConcurrency(m.Concurrency, m.Queue, pb.g.principals)
	}
	s.permits.Throttle(*pb.g.throttle.Load())
	s.others = otherListings(listing)
	if before != nil && before.mount == m {
		s.said = before.said // probably still
	}
	var known map[CapabilityKey]string
	if before != nil && before.backend == m.Backend { // else it may be another server, with the name of a renamed one
		known = before.ids
	}
	ids, named := pb.capabilityIDs(ctx, m.Backend.Name(), listing, known)
	s.ids, s.unnamed = ids, !named
	s.renderSets(before)
	s.offer = s.offered()
	for _, r := range s.rendered[mcp.Tool] {
		if r.results().Shaping.Shadowed(r.input) {
			pb.g.log.Warn("own_select is off for a tool that has an argument of this name", "server", r.Server, "tool", r.Original, "argument", result.OwnSelect)
		}
	}
	return s
}

// offered returns what the server lists, for the registry.
func (s *backendEntry) offered() *gate.Offer {
	o := &gate.Offer{
		Server: s.backend.Name(), Namespace: s.mount.Namespace, Native: s.mount.Native, Added: s.mount.Added,
		Confirmed: s.listing != nil && !s.listing.Stale,
	}
	if s.listing != nil {
		o.Instructions = &s.listing.Instructions
	}
	for _, kind := range mcp.Kinds {
		routes := s.offers(kind)
		o.Items = slices.Grow(o.Items, len(routes))
		for _, set := range [...]*backendEntry{s.withoutFeatures, s.otherEra} {
			if set == nil {
				continue
			}
			routes = slices.Concat(routes, slices.DeleteFunc(slices.Clone(set.offers(kind)), func(r *Route) bool {
				return slices.ContainsFunc(routes, func(other *Route) bool { return other.Original == r.Original })
			}))
		}
		for _, r := range routes {
			o.Items = append(o.Items, gate.Offered{
				Kind: kind, Original: r.Original, Exposed: r.Exposed, Unsuffixed: r.Unsuffixed, CapabilityID: r.CapabilityID, Definition: r.item,
				External: kind == mcp.Tool && s.mount.External[r.Original], StandIn: kind == mcp.Tool && s.isSignInTool(r.item),
				Withheld: r.to.said[descriptionOf{kind, r.Original}].Withheld,
			})
		}
	}
	if !o.Confirmed && len(o.Items) > 0 && !slices.ContainsFunc(o.Items, func(i gate.Offered) bool { return !i.StandIn }) {
		o.Instructions = nil // not known yet, because the server has not started
	}
	return o
}

func offers(servers []*backendEntry) []*gate.Offer {
	all := make([]*gate.Offer, len(servers))
	for i, s := range servers {
		all[i] = s.offer
	}
	return all
}

// capabilityIDs returns the ids of everything listed: the known ones, and new ones that it
// has issued. ok is false when those cannot be had. Calls work without them, and the next
// change of any server asks for them again.
func (pb *publisher) capabilityIDs(ctx context.Context, server string, l *mcp.Listing, known map[CapabilityKey]string) (byKey map[CapabilityKey]string, ok bool) {
	if pb.g.opts.CapabilityIDs == nil || l == nil {
		return nil, true
	}
	var keys []CapabilityKey
	byKey = make(map[CapabilityKey]string)
	for _, set := range append([]*mcp.Listing{l}, otherListings(l)...) {
		for _, kind := range mcp.Kinds {
			for i := range set.Items[kind] {
				key := CapabilityKey{server, kind.String(), set.Items[kind][i].Key}
				if _, seen := byKey[key]; seen {
					continue
				}
				if byKey[key] = known[key]; byKey[key] == "" {
					keys = append(keys, key)
				}
			}
		}
	}
	if len(keys) == 0 {
		return byKey, true
	}
	ids, err := pb.g.opts.CapabilityIDs(ctx, keys)
	if err != nil || len(ids) != len(keys) {
		pb.g.log.Warn("capability ids not issued", "server", server, "err", err)
		return byKey, false
	}
	for i, key := range keys {
		byKey[key] = ids[i]
	}
	return byKey, true
}

// Settle waits until the catalog holds what the backends offer at this moment.
func (g *Gateway) Settle(ctx context.Context) {
	for !g.publisher.upToDate() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rebuildDelay / 2):
		}
	}
}

// upToDate reports whether the snapshot holds the latest listings.
func (pb *publisher) upToDate() bool {
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

// change is one changed list of one server.
type change struct {
	server string
	kind   mcp.Kind
}

// audience is a class of clients that see the same: they use the same endpoint and
// catalog, and the gate does not tell them apart, neither before nor after a change.
type audience struct {
	class    string
	scope    Scope
	features clientFeatures
}

// announce tells clients about changed lists, but only those whose own view has
// changed. It is called for one snapshot after the other, so its cost is bounded by one
// pass over the audiences.
func (pb *publisher) announce(ctx context.Context, old, next *Snapshot) {
	changed := changes(old, next)
	if len(changed) == 0 {
		return
	}
	known := make(map[audience]map[string]bool)
	sees := func(id *gate.Identity, scope Scope, features clientFeatures) map[string]bool {
		who := audience{old.pinned.ViewClass(id) + "\x00" + next.pinned.ViewClass(id), scope, features}
		methods, ok := known[who]
		if !ok {
			methods = visibleChanges(ctx, old, next, id, who, changed)
			known[who] = methods
		}
		return methods
	}
	tell := func(client listener, hearers []*gate.Identity, scope Scope, features clientFeatures) {
		for _, kind := range listKinds {
			if allOf(hearers, func(id *gate.Identity) bool { return sees(id, scope, features)[kind.Changed()] }) {
				client.listChanged(kind.Changed())
			}
		}
	}
	for _, s := range pb.g.sessions.list() {
		tell(s, s.recipients(), s.scope, s.clientFeatures())
	}
	for _, l := range pb.g.listens.list() {
		tell(l, []*gate.Identity{l.x.Identity}, l.x.Scope, modernFeatures)
	}
	if told := pb.g.opts.ListsChanged; told != nil {
		told()
	}
}

// listKinds are the kinds whose lists have a notification of their own. Templates share
// that of resources.
var listKinds = [...]mcp.Kind{mcp.Tool, mcp.Prompt, mcp.Resource}

// changes returns the lists that differ between two snapshots, before anybody's view of
// them. All may differ when the gate is another one.
func changes(old, next *Snapshot) []change {
	var changed []change
	names := make(map[string]bool)
	for _, c := range []*Catalog{old.catalog, next.catalog} {
		for _, s := range c.servers {
			names[s.backend.Name()] = true
		}
	}
	for name := range names {
		for _, kind := range mcp.Kinds {
			configured := kind == mcp.Tool && old.generation != next.generation // with other pins or schemas, perhaps
			if configured || !old.pinned.Same(next.pinned) || old.catalog.digest(name, kind) != next.catalog.digest(name, kind) {
				changed = append(changed, change{name, kind})
			}
		}
	}
	return changed
}

// digest returns the digests of one list of one server, for all sets of definitions.
func (c *Catalog) digest(server string, kind mcp.Kind) (all [3]uint64) {
	s := c.byServer[server].base()
	if s == nil {
		return all
	}
	if len(s.rendered[kind]) > 0 {
		all[0] = s.digest[kind]
	}
	if s.withoutFeatures != nil { // an empty list of its own differs from none
		all[1] = s.withoutFeatures.digest[kind]
	}
	if s.otherEra != nil {
		all[2] = s.otherEra.digest[kind]
	}
	return all
}

// visibleChanges returns the notifications of those changes that a caller can see.
func visibleChanges(ctx context.Context, old, next *Snapshot, id *gate.Identity, who audience, changed []change) map[string]bool {
	methods := make(map[string]bool)
	for _, c := range changed {
		if methods[c.kind.Changed()] || !who.scope.has(c.server) {
			continue
		}
		if old.viewed(ctx, id, who, c).differs(next.viewed(ctx, id, who, c)) {
			methods[c.kind.Changed()] = true
		}
	}
	return methods
}

// view is what a caller may view of one list of one server. The zero view is empty.
type view struct {
	digest    uint64
	announced uint64 // number of changes that the server has announced for this set
	plain     bool
	era       mcp.Era
}

// differs reports whether next is another view. Announced changes count even where the
// list is the same: something behind the list may differ. The counts of different sets
// are not compared.
func (v view) differs(next view) bool {
	return v.digest != next.digest || v.plain == next.plain && v.era == next.era && v.announced != next.announced
}

// viewed returns the view of a caller.
func (s *Snapshot) viewed(ctx context.Context, id *gate.Identity, who audience, c change) view {
	of := s.catalogOf(id, who.features).byServer[c.server]
	if of == nil {
		return view{}
	}
	var h maphash.Hash
	h.SetSeed(digestSeed)
	h.WriteString(string(s.schemasIn(who.scope)))
	some := false
	then := Snapshot{Chain: s.pinned} // the gate as it was for this catalog
	for r, d := range then.views(ctx, id, who.scope, of.rendered[c.kind]) {
		if d.Effect == gate.Allow && s.lists(who.scope, r) {
			h.Write(r.raw)
			h.WriteByte(0)
			some = true
		}
	}
	if !some {
		return view{}
	}
	announced := of.listing.Announced[c.kind]
	if who.scope.View == FindView && c.kind == mcp.Tool { // a change behind the list is none of the few listed tools
		announced = 0
	}
	return view{h.Sum64(), announced, of.isWithoutFeatures, of.listing.Era}
}
