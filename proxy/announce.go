package proxy

import (
	"context"
	"hash/maphash"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// change is one list of one server that is another now.
type change struct {
	server string
	kind   mcp.Capability
}

// audience is a class of clients that see the same: those that the gate does
// not tell apart, neither before a change nor after it, on the same endpoint, which
// are shown the same lists.
type audience struct {
	class string
	scope Scope
	can   answers
}

// announce tells clients that a list is another now, those alone whose own
// view of it is. It is called for one snapshot after the other, so that what
// it costs is bounded by one pass over the classes of clients.
func (pb *publisher) announce(ctx context.Context, old, next *Snapshot) {
	changed := changes(old, next)
	if len(changed) == 0 {
		return
	}
	known := make(map[audience]map[string]bool)
	sees := func(id *gate.Identity, scope Scope, can answers) map[string]bool {
		who := audience{old.pinned.ViewClass(id) + "\x00" + next.pinned.ViewClass(id), scope, can}
		methods, ok := known[who]
		if !ok {
			methods = seen(ctx, old, next, id, who, changed)
			known[who] = methods
		}
		return methods
	}
	tell := func(client listener, hearers []*gate.Identity, scope Scope, can answers) {
		for _, kind := range listKinds {
			if allOf(hearers, func(id *gate.Identity) bool { return sees(id, scope, can)[kind.Changed()] }) {
				client.listChanged(kind.Changed())
			}
		}
	}
	for _, s := range pb.g.sessions.list() {
		tell(s, s.hearers(), s.scope, s.answers())
	}
	for _, l := range pb.g.listens.list() {
		tell(l, []*gate.Identity{l.x.Identity}, l.x.Scope, answersModern)
	}
}

// listKinds are the kinds whose lists have a notification of their own;
// templates share that of resources.
var listKinds = [...]mcp.Capability{mcp.Tool, mcp.Prompt, mcp.Resource}

// changes returns the lists that differ between two snapshots, before anybody's
// view of them. Behind another gate all may.
func changes(old, next *Snapshot) []change {
	var changed []change
	names := make(map[string]bool)
	for _, c := range []*Catalog{old.catalog, next.catalog} {
		for _, s := range c.servers {
			names[s.backend.Name()] = true
		}
	}
	for name := range names {
		for _, kind := range mcp.Capabilities {
			if !old.pinned.Same(next.pinned) || old.catalog.digest(name, kind) != next.catalog.digest(name, kind) {
				changed = append(changed, change{name, kind})
			}
		}
	}
	return changed
}

// digest is of one list of one server in all sets.
func (c *Catalog) digest(server string, kind mcp.Capability) (all [3]uint64) {
	s := c.byServer[server].base()
	if s == nil {
		return all
	}
	if len(s.rendered[kind]) > 0 {
		all[0] = s.digest[kind]
	}
	if s.plain != nil { // an empty list of its own is not none
		all[1] = s.plain.digest[kind]
	}
	if s.twin != nil {
		all[2] = s.twin.digest[kind]
	}
	return all
}

// seen returns the notifications of those changes that a caller can see.
func seen(ctx context.Context, old, next *Snapshot, id *gate.Identity, who audience, changed []change) map[string]bool {
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

// view is what a caller may view of one list of one server. The zero view is
// nothing.
type view struct {
	digest    uint64
	announced uint64 // changes that the server has announced to those who see this set
	plain     bool
	era       mcp.Era
}

// differs tells whether a view is another than before. A change that the server
// announces counts, even where its list is the same: it may know more of it than
// the list tells. The counts of two sets say nothing of each other.
func (v view) differs(next view) bool {
	return v.digest != next.digest || v.plain == next.plain && v.era == next.era && v.announced != next.announced
}

// viewed returns the view of a caller.
func (s *Snapshot) viewed(ctx context.Context, id *gate.Identity, who audience, c change) view {
	of := s.catalogOf(id, who.can).byServer[c.server]
	if of == nil {
		return view{}
	}
	var h maphash.Hash
	h.SetSeed(digestSeed)
	some := false
	then := Snapshot{Chain: s.pinned} // the gate as it was for this catalog
	for r, d := range then.views(ctx, id, who.scope, of.rendered[c.kind]) {
		if d.Effect == gate.Allow {
			h.Write(r.raw)
			h.WriteByte(0)
			some = true
		}
	}
	if !some {
		return view{}
	}
	return view{h.Sum64(), of.listing.Announced[c.kind], of.isPlain, of.listing.Era}
}
