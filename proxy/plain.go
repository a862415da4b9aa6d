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
	// answersAll is also what modern clients are shown by, whose lists do not
	// vary by what they declare.
	answersAll = answersSampling | answersElicitation | answersRoots
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

// answers returns what the client of a request can be asked, for its lists.
func (x *Exchange) answers() answers {
	if x.Era != mcp.Legacy || x.Session == nil {
		return answersAll
	}
	return x.Session.answers()
}

// answers returns what the client declared at initialize.
func (s *Session) answers() answers {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version.Era() != mcp.Legacy {
		return answersAll
	}
	return s.can
}

// shownTo returns the server as a client sees it that can be asked something:
// with its plain listing if that is nothing of what this server may ask.
func (s *served) shownTo(can answers) *served {
	q := s.mount.Questions
	if s.plain != nil && q != (Questions{}) && q.answered(can) == (Questions{}) {
		return s.plain
	}
	return s
}

// newPlain returns the server as it is to clients of which it may ask nothing,
// nil where that is the same.
func (s *served) newPlain(ids map[CapabilityKey]string) *served {
	if s.listing == nil || s.listing.Plain == nil {
		return nil
	}
	listing, same := sharedDefinitions(s.listing)
	if same {
		return nil
	}
	p := &served{mount: s.mount, backend: s.backend, listing: listing, slots: s.slots, other: s.listing, isPlain: true}
	p.render(ids)
	return p
}

// sharedDefinitions returns the plain listing of a server with the definitions of
// the full one wherever both have a capability: the catalog accepts one for each.
// same tells that nothing else is different.
func sharedDefinitions(full *mcp.Listing) (plain *mcp.Listing, same bool) {
	plain, same = full.Plain, bytes.Equal(full.Capabilities, full.Plain.Capabilities) && full.Instructions == full.Plain.Instructions
	for _, kind := range mcp.Capabilities {
		items := plain.Items[kind]
		same = same && len(items) == len(full.Items[kind])
		for i := range items {
			in := full.Find(kind, items[i].Key)
			switch {
			case in == nil:
				same = false
			case !bytes.Equal(in.Raw, items[i].Raw):
				if plain == full.Plain {
					plain = new(*full.Plain)
					plain.Items = maps.Clone(full.Plain.Items)
				}
				if &plain.Items[kind][0] == &full.Plain.Items[kind][0] {
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
type catalogs [answersAll + 1]*Catalog

// newCatalogs merges what the backends offer, once for every set of servers that
// show their plain listings.
func newCatalogs(servers []*served) (all catalogs) {
	made := make(map[string]*Catalog)
	for can := range all {
		shown := make([]*served, len(servers))
		set := make([]byte, len(servers))
		for i, s := range servers {
			if shown[i] = s.shownTo(answers(can)); shown[i] != s {
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
func (s *Snapshot) varies() bool { return s.plain[0] != s.plain[answersAll] }

// Catalog returns what the requests of a client are resolved in, and listed
// from: the catalog of everyone, or the one of those who can be asked as little,
// or the caller's own where there is one.
func (s *Snapshot) Catalog(x *Exchange) *Catalog {
	if !s.varies() {
		return s.catalogOf(x.Identity, answersAll)
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
func (s *Snapshot) resolve(id *gate.Identity, kind mcp.Capability, name string, scope Scope) *Route {
	if r := s.catalogOf(id, answersAll).resolve(kind, name, scope); r != nil {
		return r
	}
	for _, c := range s.everyCatalog() {
		if r := c.resolve(kind, name, scope); r != nil {
			return r
		}
	}
	return nil
}
