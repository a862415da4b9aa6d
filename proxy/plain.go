package proxy

import (
	"bytes"
	"maps"
	"slices"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// answers is what a legacy client can be asked, as it declared at initialize.
// The zero answers is nothing.
type answers uint8

const (
	answersSampling answers = 1 << iota
	answersElicitation
	answersRoots
	answersAll = answersSampling | answersElicitation | answersRoots
	// answersModern is what modern clients are shown by, whose lists do not vary by
	// what they declare.
	answersModern = answersAll + 1
)

// answersIn returns what client capabilities, raw, declare.
func answersIn(capabilities []byte) (can answers) {
	for _, c := range [...]struct {
		name string
		is   answers
	}{{"sampling", answersSampling}, {"elicitation", answersElicitation}, {"roots", answersRoots}} {
		if mcp.IsObject(mcp.Lookup(capabilities, c.name)) {
			can |= c.is
		}
	}
	return can
}

// answered returns those of q that a client can be asked.
func (q Questions) answered(can answers) Questions {
	return Questions{
		Sampling:    q.Sampling && can&answersSampling != 0,
		Elicitation: q.Elicitation && can&answersElicitation != 0,
		Roots:       q.Roots && can&answersRoots != 0,
	}
}

// era returns the era in which a server of both is listed and called for a client,
// of those questions that it may ask. A legacy client that can be asked none has no
// need of its own era: it shares the connection that there is, and with it what a
// process keeps in memory.
func (can answers) era(q Questions) mcp.Era {
	switch {
	case can == answersModern:
		return mcp.Modern
	case q.answered(can) == (Questions{}):
		return mcp.EraUnknown
	}
	return mcp.Legacy
}

// answers returns what the client of a request can be asked, for its lists.
func (x *Exchange) answers() answers {
	if x.Era != mcp.Legacy || x.Session == nil {
		return answersModern
	}
	return x.Session.answers()
}

// answers returns what the client declared at initialize.
func (s *Session) answers() answers {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version.Era() != mcp.Legacy {
		return answersModern
	}
	return s.can
}

// shownTo returns the server as a client sees it that can be asked something: in
// its era where the server speaks both, and with its plain listing if that is
// nothing of what this server may ask.
func (s *backendEntry) shownTo(can answers) *backendEntry {
	q := s.mount.Questions
	if era := can.era(q); s.twin != nil && era != mcp.EraUnknown && era != s.listing.Era {
		return s.twin
	}
	if can != answersModern && s.plain != nil && q != (Questions{}) && q.answered(can) == (Questions{}) {
		return s.plain
	}
	return s
}

// newPlain returns the server as it is to clients of which it may ask nothing,
// nil where that is the same.
func (s *backendEntry) newPlain(ids map[CapabilityKey]string) *backendEntry {
	if s.listing == nil || s.listing.Plain == nil {
		return nil
	}
	listing, same := sharedDefinitions(s.listing, s.listing.Plain)
	if same {
		return nil
	}
	p := &backendEntry{mount: s.mount, backend: s.backend, listing: listing, slots: s.slots, hash: s.hash, others: s.sets(), isPlain: true}
	p.render(ids)
	return p
}

// newTwin returns the server as it is to clients of the era that its listing is not
// of, nil where it speaks one alone.
func (s *backendEntry) newTwin(ids map[CapabilityKey]string) *backendEntry {
	if s.listing == nil || s.listing.Eras < 2 {
		return nil
	}
	era := mcp.Modern
	if s.listing.Era == mcp.Modern {
		era = mcp.Legacy
	}
	listing, _ := sharedDefinitions(s.listing, s.listing.In(era))
	t := &backendEntry{mount: s.mount, backend: s.backend, listing: listing, slots: s.slots, hash: s.hash, others: s.sets(), twinOf: s}
	t.render(ids)
	return t
}

// base returns the server as its listing of its own is, whose twin it may be.
func (s *backendEntry) base() *backendEntry {
	if s != nil && s.twinOf != nil {
		return s.twinOf
	}
	return s
}

// beside are the listings of a server that are not the one given.
func beside(l *mcp.Listing) (others []*mcp.Listing) {
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

// sets are all listings of the server: each takes part in giving names.
func (s *backendEntry) sets() []*mcp.Listing {
	return append([]*mcp.Listing{s.listing}, beside(s.listing)...)
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
type catalogs [answersModern + 1]*Catalog

// newCatalogs merges what the backends offer, once for every set of listings that
// their servers show.
func newCatalogs(servers []*backendEntry) (all catalogs) {
	made := make(map[string]*Catalog)
	for can := range all {
		shown := make([]*backendEntry, len(servers))
		set := make([]byte, len(servers))
		for i, s := range servers {
			switch shown[i] = s.shownTo(answers(can)); shown[i] {
			case s:
			case s.twin:
				set[i] = 2
			default:
				set[i] = 1
			}
		}
		if made[string(set)] == nil {
			made[string(set)] = newCatalog(shown)
		}
		all[can] = made[string(set)]
	}
	return all
}

// varies tells whether some clients are shown other lists than others because of
// what they can be asked.
func (s *Snapshot) varies() bool {
	return s.plain[0] != s.plain[answersAll] || s.plain[answersAll] != s.plain[answersModern]
}

// Catalog returns what the requests of a client are resolved in, and listed
// from: the catalog of everyone, or the one of those who can be asked as little,
// or the caller's own where there is one.
func (s *Snapshot) Catalog(x *Exchange) *Catalog {
	if !s.varies() {
		return s.catalogOf(x.Identity, answersModern)
	}
	return s.catalogOf(x.Identity, x.answers())
}

// catalogOf is [Snapshot.Catalog] for a caller who can be asked something.
func (s *Snapshot) catalogOf(id *gate.Identity, can answers) *Catalog {
	if own := s.overlays[id.Key()]; own != nil {
		return own
	}
	if c := s.plain[can]; c != nil {
		return c
	}
	return s.catalog
}

// everyCatalog are the different catalogs by what clients can be asked, the full
// one first.
func (s *Snapshot) everyCatalog() []*Catalog {
	all := []*Catalog{s.catalog}
	for _, c := range s.plain {
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
	if r := s.catalogOf(id, answersModern).resolve(kind, name, scope); r != nil {
		return r
	}
	for _, c := range s.everyCatalog() {
		if r := c.resolve(kind, name, scope); r != nil {
			return r
		}
	}
	return nil
}
