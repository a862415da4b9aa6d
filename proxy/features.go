package proxy

import (
	"bytes"
	"maps"
	"slices"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// trackResponse is what a legacy client can be asked, as it declared at initialize.
// The zero answers is nothing.
type clientFeatures uint8

const (
	answersSampling clientFeatures = 1 << iota
	answersElicitation
	answersRoots
	allFeatures = answersSampling | answersElicitation | answersRoots
	// modernFeatures is what modern clients are shown by, whose lists do not vary by
	// what they declare.
	modernFeatures = allFeatures + 1
)

// featuresIn returns what client capabilities, raw, declare.
func featuresIn(capabilities []byte) (features clientFeatures) {
	for _, c := range [...]struct {
		name string
		is   clientFeatures
	}{{"sampling", answersSampling}, {"elicitation", answersElicitation}, {"roots", answersRoots}} {
		if mcp.IsObject(mcp.Lookup(capabilities, c.name)) {
			features |= c.is
		}
	}
	return features
}

// supportedBy returns those of q that a client can be asked.
func (q Questions) supportedBy(features clientFeatures) Questions {
	return Questions{
		Sampling:    q.Sampling && features&answersSampling != 0,
		Elicitation: q.Elicitation && features&answersElicitation != 0,
		Roots:       q.Roots && features&answersRoots != 0,
	}
}

// era returns the era in which a server of both is listed and called for a client,
// of those questions that it may ask. A legacy client that can be asked none has no
// need of its own era: it shares the connection that there is, and with it what a
// process keeps in memory.
func (features clientFeatures) era(q Questions) mcp.Era {
	switch {
	case features == modernFeatures:
		return mcp.Modern
	case q.supportedBy(features) == (Questions{}):
		return mcp.EraUnknown
	}
	return mcp.Legacy
}

// features returns what the client of a request can be asked, for its lists.
func (x *Exchange) features() clientFeatures {
	if x.Era != mcp.Legacy || x.Session == nil {
		return modernFeatures
	}
	return x.Session.clientFeatures()
}

// trackResponse returns what the client declared at initialize.
func (s *Session) clientFeatures() clientFeatures {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version.Era() != mcp.Legacy {
		return modernFeatures
	}
	return s.features
}

// shownTo returns the server as a client sees it that can be asked something: in
// its era where the server speaks both, and with its plain listing if that is
// nothing of what this server may ask.
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

// newWithoutFeatures returns the server as it is to clients of which it may ask nothing,
// nil where that is the same.
func (s *backendEntry) newWithoutFeatures(ids map[CapabilityKey]string) *backendEntry {
	if s.listing == nil || s.listing.Plain == nil {
		return nil
	}
	listing, same := sharedDefinitions(s.listing, s.listing.Plain)
	if same {
		return nil
	}
	p := &backendEntry{mount: s.mount, backend: s.backend, listing: listing, slots: s.slots, hash: s.hash, others: s.listings(), isWithoutFeatures: true}
	p.render(ids)
	return p
}

// newOtherEra returns the server as it is to clients of the era that its listing is not
// of, nil where it speaks one alone.
func (s *backendEntry) newOtherEra(ids map[CapabilityKey]string) *backendEntry {
	if s.listing == nil || s.listing.Eras < 2 {
		return nil
	}
	era := mcp.Modern
	if s.listing.Era == mcp.Modern {
		era = mcp.Legacy
	}
	listing, _ := sharedDefinitions(s.listing, s.listing.In(era))
	t := &backendEntry{mount: s.mount, backend: s.backend, listing: listing, slots: s.slots, hash: s.hash, others: s.listings(), otherEraOf: s}
	t.render(ids)
	return t
}

// base returns the server as its listing of its own is, whose twin it may be.
func (s *backendEntry) base() *backendEntry {
	if s != nil && s.otherEraOf != nil {
		return s.otherEraOf
	}
	return s
}

// otherListings are the listings of a server that are not the one given.
func otherListings(l *mcp.Listing) (others []*mcp.Listing) {
	if l == nil {
		return nil
	}
	for _, set := range [...]*mcp.Listing{l.Plain, l.Other} {
		if set != nil {
			others = append(others, set)
		}
	}
	return others
}

// listings are all listings of the server: each takes part in giving names.
func (s *backendEntry) listings() []*mcp.Listing {
	return append([]*mcp.Listing{s.listing}, otherListings(s.listing)...)
}

// sharedDefinitions returns another listing of a server with the definitions of
// the full one wherever both have a capability: the catalog accepts one for each.
// same tells that nothing else is different.
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

// catalogs are the catalogs of all clients, by what they can be asked. Those
// that are the same are one.
type catalogs [modernFeatures + 1]*Catalog

// newCatalogs merges what the backends offer, once for every set of listings that
// their servers show.
func newCatalogs(servers []*backendEntry) (all catalogs) {
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
			made[string(set)] = newCatalog(shown)
		}
		all[features] = made[string(set)]
	}
	return all
}

// varies tells whether some clients are shown other lists than others because of
// what they can be asked.
func (s *Snapshot) varies() bool {
	return s.byFeatures[0] != s.byFeatures[allFeatures] || s.byFeatures[allFeatures] != s.byFeatures[modernFeatures]
}

// Catalog returns what the requests of a client are resolved in, and listed
// from: the catalog of everyone, or the one of those who can be asked as little,
// or the caller's own where there is one.
func (s *Snapshot) Catalog(x *Exchange) *Catalog {
	if !s.varies() {
		return s.catalogOf(x.Identity, modernFeatures)
	}
	return s.catalogOf(x.Identity, x.features())
}

// catalogOf is [Snapshot.Catalog] for a caller who can be asked something.
func (s *Snapshot) catalogOf(id *gate.Identity, features clientFeatures) *Catalog {
	if own := s.overlays[id.Key()]; own != nil {
		return own
	}
	if c := s.byFeatures[features]; c != nil {
		return c
	}
	return s.catalog
}

// everyCatalog are the different catalogs by what clients can be asked, the full
// one first.
func (s *Snapshot) everyCatalog() []*Catalog {
	all := []*Catalog{s.catalog}
	for _, c := range s.byFeatures {
		if c != nil && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

// names returns the exposed names in all catalogs, those of one kind together.
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

// resolve returns the route of an exposed name for whichever client is shown it,
// nil when nobody is.
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
