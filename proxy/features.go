package proxy

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/revision"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// clientFeatures are the requests of servers that a legacy client can answer, as
// declared in initialize. The zero value is none.
type clientFeatures uint8

const (
	samplingFeature clientFeatures = 1 << iota
	elicitationFeature
	rootsFeature
	allFeatures = samplingFeature | elicitationFeature | rootsFeature
	// modernFeatures stands for all modern clients: their lists do not depend on what
	// they declare.
	modernFeatures = allFeatures + 1
)

// featuresIn returns the features in raw client capabilities.
func featuresIn(capabilities []byte) (features clientFeatures) {
	for _, c := range [...]struct {
		name string
		is   clientFeatures
	}{{"sampling", samplingFeature}, {"elicitation", elicitationFeature}, {"roots", rootsFeature}} {
		if mcp.IsObject(mcp.Lookup(capabilities, c.name)) {
			features |= c.is
		}
	}
	return features
}

// supportedBy returns the part of q that a client supports.
func (q Questions) supportedBy(features clientFeatures) Questions {
	return Questions{
		Sampling:    q.Sampling && features&samplingFeature != 0,
		Elicitation: q.Elicitation && features&elicitationFeature != 0,
		Roots:       q.Roots && features&rootsFeature != 0,
	}
}

// era returns the era in which a server of both eras is listed and called for a client,
// where q is what it may ask. A legacy client that can be asked nothing needs no
// connection of its own era. It shares the existing one, and with it the memory of the
// server's process.
func (features clientFeatures) era(q Questions) mcp.Era {
	switch {
	case features == modernFeatures:
		return mcp.Modern
	case q.supportedBy(features) == (Questions{}):
		return mcp.EraUnknown
	}
	return mcp.Legacy
}

// features returns the client features of a request, for its lists.
func (x *Exchange) features() clientFeatures {
	if x.Era != mcp.Legacy || x.Session == nil {
		return modernFeatures
	}
	return x.Session.clientFeatures()
}

// clientFeatures returns the features that the client declared in initialize.
func (s *Session) clientFeatures() clientFeatures {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version.Era() != mcp.Legacy {
		return modernFeatures
	}
	return s.features
}

// shownTo returns the entry for a client with these features: in the client's era where
// the server speaks both, and without client features if the client supports none of
// the requests that the server may send.
func (s *backendEntry) shownTo(features clientFeatures) *backendEntry {
	q := s.mount.Questions
	if era := features.era(q); s.otherEra != nil && era != mcp.EraUnknown && era != s.listing.Era {
		return s.otherEra
	}
	if features != modernFeatures && s.withoutFeatures != nil && q != (Questions{}) && q.supportedBy(features) == (Questions{}) {
		return s.withoutFeatures
	}
	return s
}

// renderSets makes what clients see, in all sets of definitions. before is the entry that
// this one replaces, or nil.
func (s *backendEntry) renderSets(before *backendEntry) {
	var withoutFeatures, otherEra *backendEntry
	if before != nil {
		withoutFeatures, otherEra = before.withoutFeatures, before.otherEra
	}
	s.render(s.ids, before)
	s.withoutFeatures = s.newWithoutFeatures(withoutFeatures)
	s.otherEra = s.newOtherEra(otherEra)
}

// newWithoutFeatures returns the entry for clients without client features, nil where
// it is the same.
func (s *backendEntry) newWithoutFeatures(before *backendEntry) *backendEntry {
	if s.listing == nil || s.listing.WithoutCapabilities == nil {
		return nil
	}
	listing, same := sharedDefinitions(s.listing, s.listing.WithoutCapabilities)
	if same {
		return nil
	}
	p := &backendEntry{mount: s.mount, backend: s.backend, listing: listing, permits: s.permits, hash: s.hash, said: s.said, others: s.listings(), isWithoutFeatures: true}
	p.render(s.ids, before)
	return p
}

// newOtherEra returns the entry for clients of the other era than the listing's, nil
// where the server speaks only one.
func (s *backendEntry) newOtherEra(before *backendEntry) *backendEntry {
	if s.listing == nil || s.listing.Eras < 2 {
		return nil
	}
	era := mcp.Modern
	if s.listing.Era == mcp.Modern {
		era = mcp.Legacy
	}
	listing, _ := sharedDefinitions(s.listing, s.listing.In(era))
	t := &backendEntry{mount: s.mount, backend: s.backend, listing: listing, permits: s.permits, hash: s.hash, said: s.said, others: s.listings(), otherEraOf: s}
	t.render(s.ids, before)
	return t
}

// base returns the entry that this one is the otherEra of, or itself.
func (s *backendEntry) base() *backendEntry {
	if s != nil && s.otherEraOf != nil {
		return s.otherEraOf
	}
	return s
}

// otherListings returns the other listings of a server.
func otherListings(l *mcp.Listing) (others []*mcp.Listing) {
	if l == nil {
		return nil
	}
	for _, set := range [...]*mcp.Listing{l.WithoutCapabilities, l.Other} {
		if set != nil {
			others = append(others, set)
		}
	}
	return others
}

// listings are all listings of the server. Each takes part in the assignment of names.
func (s *backendEntry) listings() []*mcp.Listing {
	return append([]*mcp.Listing{s.listing}, otherListings(s.listing)...)
}

// sharedDefinitions returns own with the definitions of full wherever both have a
// capability: the catalog accepts one definition of each. same means that nothing else
// differs.
func sharedDefinitions(full, own *mcp.Listing) (plain *mcp.Listing, same bool) {
	plain, same = own, bytes.Equal(full.Capabilities, own.Capabilities) && full.Instructions == own.Instructions
	for _, kind := range mcp.Kinds {
		items := plain.Items[kind]
		same = same && len(items) == len(full.Items[kind])
		for i := range items {
			in := full.Find(kind, items[i].Key)
			switch {
			case in == nil:
				same = false
			case !bytes.Equal(in.Raw, items[i].Raw):
				if plain == own {
					plain = new(*own)
					plain.Items = maps.Clone(own.Items)
				}
				if &plain.Items[kind][0] == &own.Items[kind][0] {
					plain.Items[kind] = slices.Clone(items)
				}
				plain.Items[kind][i] = *in
			}
		}
	}
	return plain, same
}

// catalogs are the catalogs by client features. Equal ones share a pointer.
type catalogs [modernFeatures + 1]*Catalog

// newCatalogs merges the lists of the backends, once for every set of listings that
// clients see. before are the catalogs that these replace.
func newCatalogs(servers []*backendEntry, before *catalogs) (all catalogs) {
	made := make(map[string]*Catalog)
	for features := range all {
		shown := make([]*backendEntry, len(servers))
		set := make([]byte, len(servers))
		for i, s := range servers {
			switch shown[i] = s.shownTo(clientFeatures(features)); shown[i] {
			case s:
			case s.otherEra:
				set[i] = 2
			default:
				set[i] = 1
			}
		}
		if made[string(set)] == nil {
			made[string(set)] = newCatalog(shown, before[features])
		}
		all[features] = made[string(set)]
	}
	return all
}

// varies reports whether lists depend on client features.
func (s *Snapshot) varies() bool {
	return s.byFeatures[0] != s.byFeatures[allFeatures] || s.byFeatures[allFeatures] != s.byFeatures[modernFeatures]
}

// Catalog returns the catalog that a client's requests use: its own where there is one,
// or the one for its features.
func (s *Snapshot) Catalog(x *Exchange) *Catalog {
	if !s.varies() {
		return s.catalogOf(x.Identity, modernFeatures)
	}
	return s.catalogOf(x.Identity, x.features())
}

// catalogOf is [Snapshot.Catalog] for a caller with these features.
func (s *Snapshot) catalogOf(id *gate.Identity, features clientFeatures) *Catalog {
	if own := s.overlays[id.Key()]; own != nil {
		return own
	}
	if c := s.byFeatures[features]; c != nil {
		return c
	}
	return s.catalog
}

// everyCatalog returns the distinct catalogs by client features, the full one first.
func (s *Snapshot) everyCatalog() []*Catalog {
	all := []*Catalog{s.catalog}
	for _, c := range s.byFeatures {
		if c != nil && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

// names returns the exposed names in all catalogs, grouped by kind.
func (s *Snapshot) names() []string {
	all := s.everyCatalog()
	if len(all) == 1 {
		return s.catalog.names()
	}
	var names []string
	for _, c := range all {
		names = append(names, c.names()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// resolve returns the route of an exposed name in any client's catalog, nil when none
// has it.
func (s *Snapshot) resolve(id *gate.Identity, kind mcp.Kind, name string, scope Scope) *Route {
	if r := s.catalogOf(id, modernFeatures).resolve(kind, name, scope); r != nil {
		return r
	}
	for _, c := range s.everyCatalog() {
		if r := c.resolve(kind, name, scope); r != nil {
			return r
		}
	}
	return nil
}

// Description is what clients see of an item beside what its server lists.
type Description struct {
	Title string // in place of the server's; empty keeps it
	// Meta is a JSON object that is listed in _meta under [ToolKey]; empty for none.
	Meta string
	// AlwaysLoad tells clients that search by themselves to load the definition of a tool
	// without a search.
	AlwaysLoad bool
	// Notes is a JSON object that is listed in _meta under [NotesKey]; empty for none.
	Notes string
	// Withheld keeps the item out of every list and every search, and nobody can call it
	// by its name.
	Withheld bool
}

// NotesKey is the member of an item's _meta with what interceptors say of it.
const NotesKey = mcp.GatewayPrefix + "notes"

// ToolKey is the member of an item's _meta that says what the operator knows of it.
const ToolKey = mcp.GatewayPrefix + "tool"

// alwaysLoadKey is the member of _meta by which Claude Code loads the definition of a
// tool that it would defer otherwise (its documentation, "Configure tool search").
const alwaysLoadKey = "anthropic/alwaysLoad"

// descriptionOf names what a description is of.
type descriptionOf struct {
	kind     mcp.Kind
	original string
}

// render puts the description into an item.
func (d Description) render(item []byte) []byte {
	if d.Title != "" {
		item = mcp.SetMember(item, "title", mcp.Quote(d.Title))
	}
	if d.Meta != "" {
		item = setMeta(item, ToolKey, []byte(d.Meta))
	}
	if d.Notes != "" {
		item = setMeta(item, NotesKey, []byte(d.Notes))
	}
	if d.AlwaysLoad {
		item = setMeta(item, alwaysLoadKey, []byte("true"))
	}
	return item
}

// setMeta sets a member of an item's _meta.
func setMeta(item []byte, key string, value []byte) []byte {
	meta := mcp.Lookup(item, "_meta")
	if !mcp.IsObject(meta) {
		meta = []byte("{}")
	}
	return mcp.SetMember(item, "_meta", mcp.SetMember(meta, key, value))
}

// described returns the entry with what is said of its items now: itself, if that is
// what it has.
func (s *backendEntry) described() *backendEntry {
	said := map[descriptionOf]Description{}
	if s.mount.Describe != nil {
		for _, set := range [...]*backendEntry{s, s.withoutFeatures, s.otherEra} {
			if set == nil {
				continue
			}
			for _, kind := range mcp.Kinds {
				for _, r := range set.offers(kind) {
					of := descriptionOf{kind, r.Original}
					if _, done := said[of]; done {
						continue
					}
					if d := s.mount.Describe(r.Capability, r.item); d != (Description{}) {
						said[of] = d
					}
				}
			}
		}
	}
	if maps.Equal(said, s.said) {
		return s
	}
	next := &backendEntry{
		mount: s.mount, backend: s.backend, listing: s.listing, offer: s.offer, permits: s.permits, hash: s.hash,
		ids: s.ids, unnamed: s.unnamed, others: s.others, said: said,
	}
	next.renderSets(s)
	next.offer = next.offered()
	return next
}

// Capability is an item that the gateway exposes.
type Capability struct {
	Kind                mcp.Kind
	Server, Original    string
	Exposed, Unsuffixed string // see [gate.Names]
	CapabilityID        string
	// Schema is the input schema of a tool as its server listed it, nil where there is
	// none. It must not be modified.
	Schema []byte

	route   *Route
	schemas schemas.Mode
}

// Listed returns the item as clients of the newest revision see it. It must not be modified.
func (c *Capability) Listed() []byte {
	return c.route.listed(revision.Of(mcp.LatestModern), c.schemas)
}

// Capabilities returns everything that the gateway exposes to any client, whoever may
// view it. It is grouped by kind and sorted by exposed name.
func (g *Gateway) Capabilities() []Capability {
	snap := g.snapshot.Load()
	var all []Capability
	for _, kind := range mcp.Kinds {
		seen := make(map[string]bool)
		begin := len(all)
		for _, catalog := range snap.everyCatalog() {
			for _, r := range catalog.lists[kind].entries {
				if seen[r.Exposed] {
					continue
				}
				seen[r.Exposed] = true
				all = append(all, Capability{
					Kind: kind, Server: r.Server, Original: r.Original, Exposed: r.Exposed, Unsuffixed: r.Unsuffixed,
					CapabilityID: r.CapabilityID, Schema: r.input, route: r, schemas: snap.schemas,
				})
			}
		}
		slices.SortFunc(all[begin:], func(a, b Capability) int { return strings.Compare(a.Exposed, b.Exposed) })
	}
	return all
}
