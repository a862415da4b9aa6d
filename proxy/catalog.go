package proxy

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/names"
	"github.com/toolgate/toolgate/proxy/revision"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// Catalog holds everything that is exposed, by kind and name. It is immutable, except
// for renderings that are made on demand.
type Catalog struct {
	lists    map[mcp.Kind]*list
	servers  []*backendEntry // sorted by key
	byServer map[string]*backendEntry
	byPrefix map[string]*backendEntry // by namespace

	// shadowed are routes that are not offered: their name belongs to another item, has
	// the form of another server's names, or shares its hash with too many.
	shadowed []*Route

	pages keptPages
}

// list holds the routes of one kind, sorted by exposed name.
type list struct {
	entries []*Route
	places  map[string]int32 // of the names in entries; lists with the same names share it
}

// find returns the route of an exposed name, nil where there is none.
func (l *list) find(name string) *Route {
	if at, ok := l.places[name]; ok {
		return l.entries[at]
	}
	return nil
}

// backendEntry is one backend in a catalog, with its listing at the time when the
// catalog was made.
type backendEntry struct {
	mount    *Mount
	backend  Backend
	listing  *mcp.Listing
	rendered map[mcp.Kind][]*Route // sorted by exposed name
	nameless []*Route              // items that are not offered, see [backendEntry.names]
	withheld map[mcp.Kind][]*Route // items that nobody is listed, see [Description.Withheld]
	digest   map[mcp.Kind]uint64   // of what clients see, by kind
	offer    *gate.Offer           // for the registry
	permits  *limit.Concurrency
	hash     func(name string) int         // see [Options.NameHash]
	ids      map[CapabilityKey]string      // of what it lists; empty where they could not be issued
	unnamed  bool                          // some of its capability ids could not be issued
	said     map[descriptionOf]Description // of what it lists, where there is any

	withoutFeatures   *backendEntry  // the entry for clients of which the server may ask nothing; nil when it is the same
	others            []*mcp.Listing // the other sets of definitions
	isWithoutFeatures bool

	otherEra   *backendEntry // the entry for clients of the other era; nil where the server speaks only one
	otherEraOf *backendEntry // the entry whose otherEra this one is
}

// Route is where an exposed name leads. It is immutable, except for renderings that are
// made on demand.
type Route struct {
	// The pointer is the same in later catalogs for as long as the item and everything
	// that is said of it are, so that what is known of it is kept by it.
	*gate.Capability
	Params []mcp.ParamHeader

	tasks string // execution.taskSupport of a tool, where its server has tasks of 2025-11-25
	to    *backendEntry
	shape *ToolShape
	raw   []byte // as clients see it
	item  []byte // as its server listed it; nil for what is not listed
	input []byte // input schema of a tool, in item

	cleanUntil      atomic.Int64                // when its names are searched for secrets again, in ns since 1970
	verbatim        byRevision                  // of raw
	compact, strict atomic.Pointer[withSchemas] // raw with other schemas, made at first use
	nested          atomic.Pointer[mcp.NestedTool]
}

// byRevision is an item as clients of each revision can take it, made at first use.
type byRevision [revision.Count]atomic.Pointer[[]byte]

func (b *byRevision) item(rev revision.Index, kind mcp.Kind, raw []byte) []byte {
	if made := b[rev].Load(); made != nil {
		return *made
	}
	made := &raw
	if item := revision.Item(revision.Versions[rev], kind, raw); !bytes.Equal(item, raw) {
		made = &item
	}
	b[rev].Store(made) // a concurrent caller stores equal bytes
	return *made
}

// withSchemas is a tool with its schemas in another form than its server's.
type withSchemas struct {
	schemas.Rewritten
	raw []byte
	byRevision
}

// listed returns the item's bytes for clients of a revision, with schemas in a mode.
func (r *Route) listed(rev revision.Index, mode schemas.Mode) []byte {
	if other := r.in(mode); other != nil {
		return other.item(rev, r.Kind, other.raw)
	}
	return r.verbatim.item(rev, r.Kind, r.raw)
}

// in returns the tool with its schemas in a mode; nil for those of its server, and for
// what is no tool.
func (r *Route) in(mode schemas.Mode) *withSchemas {
	made := &r.compact
	switch {
	case r.Kind != mcp.Tool || mode != schemas.CompactMode && mode != schemas.StrictMode:
		return nil
	case mode == schemas.StrictMode:
		made = &r.strict
	}
	if known := made.Load(); known != nil {
		return known
	}
	other := &withSchemas{}
	other.raw, other.Rewritten = mode.Tool(r.raw)
	made.Store(other) // a concurrent caller stores an equal one
	return other
}

func (s *backendEntry) shape(kind mcp.Kind, original string) *ToolShape {
	if kind == mcp.Tool {
		if _, shaped := s.mount.Tools[original]; shaped { // else every tool would cost the memory of a shape
			shape := s.mount.Tools[original]
			return &shape
		}
	}
	return nil
}

// isShown reports whether the operator exposes a tool. The sign-in tool need not be
// included: without it nothing would be listed before the sign-in.
func (s *backendEntry) isShown(kind mcp.Kind, item *mcp.Item) bool {
	if kind != mcp.Tool {
		return true
	}
	if len(s.mount.Include) > 0 && !slices.Contains(s.mount.Include, item.Key) && !s.isSignInTool(item.Raw) {
		return false
	}
	return !slices.Contains(s.mount.Exclude, item.Key)
}

// render makes the routes of everything in the listing. before is the entry that this
// one replaces, or nil.
func (s *backendEntry) render(ids map[CapabilityKey]string, before *backendEntry) {
	s.rendered, s.withheld = make(map[mcp.Kind][]*Route), make(map[mcp.Kind][]*Route)
	s.digest = make(map[mcp.Kind]uint64)
	if s.listing == nil {
		return
	}
	for _, kind := range mcp.Kinds {
		known := before.routes(kind, s)
		items := s.listing.Items[kind]
		named := s.namesFrom(kind, before, known)
		routes := make([]*Route, 0, len(items))
		for i := range items {
			shape := s.shape(kind, items[i].Key)
			if shape != nil && shape.Hidden || !s.isShown(kind, &items[i]) {
				continue
			}
			name, ok := named(items[i].Key)
			if !ok {
				s.nameless = append(s.nameless, &Route{Capability: &gate.Capability{Kind: kind, Server: s.backend.Name(), Original: items[i].Key}})
				continue
			}
			of := gate.Capability{
				Kind: kind, Server: s.backend.Name(), Original: items[i].Key, Exposed: name.Exposed, Unsuffixed: name.Unsuffixed,
				CapabilityID: ids[CapabilityKey{s.backend.Name(), kind.String(), items[i].Key}],
			}
			r := &Route{Params: items[i].Params, to: s, shape: shape, item: items[i].Raw}
			if !r.reuse(known[of.Original], &of) {
				r.Capability = new(of)
				s.renderRoute(r)
			}
			if s.said[descriptionOf{kind, r.Original}].Withheld {
				s.withheld[kind] = append(s.withheld[kind], r)
			} else {
				routes = append(routes, r)
			}
		}
		slices.SortFunc(routes, inOrder)
		var h maphash.Hash
		h.SetSeed(digestSeed)
		for _, r := range routes {
			h.Write(r.raw)
			h.WriteByte(0)
		}
		// The digest includes the number of announced changes. Announced changes count
		// even where the list is the same: something behind the list may differ.
		maphash.WriteComparable(&h, s.listing.Announced[kind])
		s.rendered[kind], s.digest[kind] = routes, h.Sum64()
	}
}

// renderRoute makes what clients see of a route.
func (s *backendEntry) renderRoute(r *Route) {
	r.raw = s.renderItem(r, r.item)
	if r.Kind != mcp.Tool {
		return
	}
	r.input = mcp.Lookup(r.item, "inputSchema")
	if s.hasTasks() {
		r.tasks, _ = mcp.LookupString(r.raw, "execution", "taskSupport")
	} else { // a tool without one counts as forbidden (2025-11-25 basic/utilities/tasks, Tool-Level Negotiation)
		r.raw = revision.WithoutTaskSupport(r.raw)
	}
}

// routes returns the routes of an entry, by their names at the server, of which next may
// reuse what was made: nil where another configuration is in force.
func (s *backendEntry) routes(kind mcp.Kind, next *backendEntry) map[string]*Route {
	if s == nil || s.mount != next.mount || s.hasTasks() != next.hasTasks() {
		return nil
	}
	known := make(map[string]*Route, len(s.rendered[kind]))
	for _, r := range s.offers(kind) {
		known[r.Original] = r
	}
	return known
}

// offers returns everything of a kind that the server offers, also what nobody is listed.
func (s *backendEntry) offers(kind mcp.Kind) []*Route {
	if len(s.withheld[kind]) == 0 {
		return s.rendered[kind]
	}
	return slices.Concat(s.rendered[kind], s.withheld[kind])
}

// reuse takes over what was made of the same item before, which has to be a capability. It
// reports whether that is so.
func (r *Route) reuse(before *Route, capability *gate.Capability) bool {
	of := descriptionOf{capability.Kind, capability.Original}
	if before == nil || *before.Capability != *capability || !bytes.Equal(before.item, r.item) || before.to.said[of] != r.to.said[of] {
		return false
	}
	r.Capability, r.item, r.raw, r.input, r.tasks = before.Capability, before.item, before.raw, before.input, before.tasks
	for rev := range r.verbatim {
		r.verbatim[rev].Store(before.verbatim[rev].Load())
	}
	r.compact.Store(before.compact.Load())
	r.strict.Store(before.strict.Load())
	return true
}

var digestSeed = maphash.MakeSeed()

// renderItem returns an item's bytes as clients see them.
func (s *backendEntry) renderItem(r *Route, raw []byte) []byte {
	said := s.said[descriptionOf{r.Kind, r.Original}]
	if r.Kind == mcp.Tool {
		raw = r.results().Shaping.Listed(raw)
	}
	if s.mount.Namespace == "" && r.shape == nil {
		return said.render(raw)
	}
	if r.Kind != mcp.Tool {
		return said.render(mcp.SetMember(raw, r.Kind.KeyMember(), mcp.Quote(r.Exposed)))
	}
	if r.shape != nil && r.shape.Title != "" {
		said.Title = ""
	}
	return names.ExposeApp(s.mount.Namespace, said.render(r.shape.render(raw, r.Exposed)))
}

// newCatalog merges what the backends offer. before is the catalog that this one replaces,
// or nil.
func newCatalog(servers []*backendEntry, before *Catalog) *Catalog {
	c := &Catalog{
		lists: make(map[mcp.Kind]*list), byServer: make(map[string]*backendEntry), byPrefix: make(map[string]*backendEntry),
	}
	c.servers = slices.Clone(servers)
	slices.SortFunc(c.servers, func(a, b *backendEntry) int { return cmp.Compare(a.backend.Name(), b.backend.Name()) })
	for _, s := range c.servers {
		c.byServer[s.backend.Name()] = s
		c.byPrefix[s.mount.Namespace] = s
		c.shadowed = append(c.shadowed, s.nameless...)
	}
	for _, kind := range mcp.Kinds {
		if c.lists[kind] = c.updated(kind, before); c.lists[kind] == nil {
			c.lists[kind] = c.merge(kind)
		}
	}
	return c
}

// updated returns the list of a kind of the catalog before with the routes of now. It is nil
// where any name may be new, gone or somebody else's.
func (c *Catalog) updated(kind mcp.Kind, before *Catalog) *list {
	if before == nil || len(before.shadowed) > 0 || len(c.shadowed) > 0 || !slices.EqualFunc(c.servers, before.servers, func(a, b *backendEntry) bool {
		return a == b || a.mount == b.mount && slices.EqualFunc(a.rendered[kind], b.rendered[kind], func(r, other *Route) bool { return r.Exposed == other.Exposed })
	}) {
		return nil
	}
	l := before.lists[kind]
	for i, s := range c.servers {
		if s == before.servers[i] || len(s.rendered[kind]) == 0 {
			continue
		}
		if l == before.lists[kind] {
			l = &list{slices.Clone(l.entries), l.places}
		}
		for _, r := range s.rendered[kind] {
			if at := l.places[r.Exposed]; l.entries[at].to == before.servers[i] {
				l.entries[at] = r
			}
		}
	}
	return l
}

// merge makes the list of a kind.
func (c *Catalog) merge(kind mcp.Kind) *list {
	n := 0
	for _, s := range c.servers {
		n += len(s.rendered[kind])
	}
	l := &list{places: make(map[string]int32, n)}
	var parts [][]*Route // each sorted
	for _, s := range c.servers {
		part := make([]*Route, 0, len(s.rendered[kind]))
		for _, r := range s.rendered[kind] {
			if s.mount.Namespace == "" && c.claimed(r) {
				c.shadowed = append(c.shadowed, r)
				continue
			}
			if _, taken := l.places[r.Exposed]; !taken {
				l.places[r.Exposed] = 0 // until all are in order
				part = append(part, r)
			}
		}
		if len(part) > 0 {
			parts = append(parts, part)
		}
	}
	// The names of one server mostly stand together, so the parts in order are nearly sorted.
	slices.SortFunc(parts, func(a, b []*Route) int { return inOrder(a[0], b[0]) })
	l.entries = slices.Concat(parts...)
	slices.SortFunc(l.entries, inOrder)
	for at, r := range l.entries {
		l.places[r.Exposed] = int32(at)
	}
	return l
}

// claimed reports whether a name of the server without a namespace has the form of
// another server's names. Such a name is not offered: no server may take the place of
// another.
func (c *Catalog) claimed(r *Route) bool {
	prefix, ok := names.Namespace(r.Kind, r.Exposed)
	return ok && prefix != "" && (c.byPrefix[prefix] != nil || prefix == gate.OwnNamespace && !r.to.mount.Native)
}

// resolve returns the route of an exposed name within a scope, nil when there is none.
// A resource that is not listed is routed by its namespace, because it may come from a
// template. A URI that leads elsewhere than its namespace says is not routed (see
// [names.Direct]).
func (c *Catalog) resolve(kind mcp.Kind, name string, scope Scope) *Route {
	r := c.lists[kind].find(name)
	if r == nil && kind == mcp.Resource {
		r = c.unlisted(name)
	}
	if r == nil || !scope.has(r.Server) {
		return nil
	}
	return r
}

func (c *Catalog) unlisted(uri string) *Route {
	s := c.byPrefix[""]
	if ns, ok := names.Namespace(mcp.Resource, uri); ok && c.byPrefix[ns] != nil {
		s = c.byPrefix[ns]
	}
	if s == nil {
		return nil
	}
	original, ok := names.Original(s.mount.Namespace, uri)
	if !ok || !names.Direct(original) || !s.listing.Declares("resources") {
		return nil
	}
	return &Route{Capability: &gate.Capability{Kind: mcp.Resource, Server: s.backend.Name(), Original: original, Exposed: uri}, to: s}
}

// Lifetimes of lists without one of their own.
const (
	emptyListTTL = time.Hour       // for a list that no server in scope has
	startingTTL  = 5 * time.Second // while a server is starting
)

// ttl is how long a list of a kind is fresh: the shortest lifetime among the servers in
// scope that have such a list, or may turn out to have one. Servers in hidden are left
// out.
func (c *Catalog) ttl(kind mcp.Kind, scope Scope, hidden map[*backendEntry]bool) time.Duration {
	least := time.Duration(-1)
	for _, s := range c.servers {
		if !scope.has(s.backend.Name()) || hidden[s] {
			continue
		}
		if own, contributes := s.ttl(kind); contributes && (least < 0 || own < least) {
			least = own
		}
	}
	if least < 0 {
		return emptyListTTL
	}
	return least
}

// ttl is how long the server's part of a list is fresh. contributes is false when the
// server has none.
func (s *backendEntry) ttl(kind mcp.Kind) (own time.Duration, contributes bool) {
	switch l := s.listing; {
	case l == nil:
		_, status := s.backend.Listing()
		return startingTTL, status.State != mcp.Disabled
	case l.Stale:
		return startingTTL, true
	default:
		return l.Fresh(kind)
	}
}

// Scope is what an endpoint is about.
type Scope struct {
	Server  string // only this server; empty for all
	Capsule string // only this capsule; empty for all that the caller holds
	View    View
	// Schemas is how the schemas of tools are listed; empty for the default.
	Schemas schemas.Mode
}

// has reports whether a server is in scope.
func (s Scope) has(server string) bool { return s.Server == "" || s.Server == server }

// of returns the routes that are in scope.
func (s Scope) of(routes []*Route) []*Route {
	if s.Server == "" {
		return routes
	}
	return slices.DeleteFunc(slices.Clone(routes), func(r *Route) bool { return !s.has(r.Server) })
}

// key identifies the scope where something is bound to it.
func (s Scope) key() string {
	return s.Server + "\x00" + s.Capsule + "\x00" + string(s.View) + "\x00" + string(s.Schemas)
}

// claim is an item of a server that asks for a name.
type claim struct {
	original string
	plain    string // see [gate.Names]
	renamed  bool   // by the operator
	changed  bool   // plain differs from the item's own name, which clients could not take
}

// before orders claims to one name: names that the operator gave come first, then items
// that would get no other name, then the rest by name at the server.
func (c *claim) before(other *claim) bool {
	switch {
	case c.renamed != other.renamed:
		return c.renamed
	case c.changed != other.changed:
		return c.changed
	}
	return c.original < other.original
}

// namesFrom returns what [backendEntry.names] has, from the routes that an entry before made
// of items with the same names where there are some.
func (s *backendEntry) namesFrom(kind mcp.Kind, before *backendEntry, known map[string]*Route) func(original string) (gate.Names, bool) {
	missing := func(i mcp.Item) bool { return known[i.Key] == nil }
	if known != nil && before.listing != nil && s.listsSame(kind, before) && !slices.ContainsFunc(s.listing.Items[kind], missing) {
		return func(original string) (gate.Names, bool) { return known[original].names(), true }
	}
	named := s.names(kind)
	return func(original string) (gate.Names, bool) {
		name, ok := named[original]
		return name, ok
	}
}

// listsSame reports whether the sets of definitions of two entries have the same items, by
// their names at the server.
func (s *backendEntry) listsSame(kind mcp.Kind, before *backendEntry) bool {
	same := func(a, b *mcp.Listing) bool {
		return slices.EqualFunc(a.Items[kind], b.Items[kind], func(a, b mcp.Item) bool { return a.Key == b.Key })
	}
	return same(s.listing, before.listing) && slices.EqualFunc(s.others, before.others, same)
}

// names returns the exposed names of the server's items of a kind, by their names at
// the server. An item without a name is not offered: the operator gave its name to
// another item, it imitates the changed name of another item, or too many items have
// the same hash.
//
// All sets of definitions count: a name must not depend on the set that a client sees.
func (s *backendEntry) names(kind mcp.Kind) map[string]gate.Names {
	named, taken := make(map[string]gate.Names), make(map[string]*claim)
	for _, l := range append([]*mcp.Listing{s.listing}, s.others...) {
		for i := range l.Items[kind] {
			original := l.Items[kind][i].Key
			if kind != mcp.Tool && kind != mcp.Prompt {
				named[original] = gate.Names{Exposed: names.URI(s.mount.Namespace, original)}
				continue
			}
			c := s.claim(kind, original)
			if first := taken[c.plain]; first == nil || c.before(first) {
				taken[c.plain] = &c
			}
		}
	}
	folded := make(map[string]int, len(taken))
	for plain := range taken {
		folded[strings.ToLower(plain)]++
	}
	for plain, c := range taken {
		named[c.original] = gate.Names{Exposed: plain}
		if folded[strings.ToLower(plain)] > 1 && !c.renamed {
			if own := names.Exposed(s.mount.Namespace, s.backend.Name(), c.original, true); own != plain {
				named[c.original] = gate.Names{Exposed: own, Unsuffixed: plain}
			}
		}
	}
	s.limitSameHash(named)
	return named
}

// maxSameHash is how many names of one kind with the same hash a server may offer, see
// [Options.NameHash].
const maxSameHash = 8

// limitSameHash removes names beyond maxSameHash of each hash.
func (s *backendEntry) limitSameHash(named map[string]gate.Names) {
	if s.hash == nil || len(named) <= maxSameHash {
		return
	}
	alike := make(map[int]int)
	for _, original := range slices.Sorted(maps.Keys(named)) {
		hash := s.hash(named[original].Exposed)
		if alike[hash]++; alike[hash] > maxSameHash {
			delete(named, original)
		}
	}
}

func (s *backendEntry) claim(kind mcp.Kind, original string) claim {
	c := claim{original: original}
	shown := original
	if shape := s.shape(kind, original); shape != nil && shape.Rename != "" {
		shown, c.renamed = shape.Rename, true
	}
	c.plain = names.Exposed(s.mount.Namespace, s.backend.Name(), shown, false)
	c.changed = !strings.HasSuffix(c.plain, shown)
	return c
}

// names are all names of the route.
func (r *Route) names() gate.Names { return gate.Names{Exposed: r.Exposed, Unsuffixed: r.Unsuffixed} }

// inOrder orders routes as they are listed.
func inOrder(a, b *Route) int {
	return cmp.Or(cmp.Compare(a.Exposed, b.Exposed), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Original, b.Original))
}
