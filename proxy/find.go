package proxy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/findview"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/revision"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// View is what the list of tools of an endpoint holds. It narrows what is listed and
// never what may be called.
type View string

// The views.
const (
	FullView View = ""     // all tools that the caller may view
	FindView View = "find" // the tools of package findview, and the pinned ones
)

// ViewPaths returns what may follow the path of an endpoint: how schemas are listed, the
// find view, or both in this order.
func ViewPaths() []string {
	all := []string{"/" + string(FindView)}
	for _, mode := range schemas.Modes {
		all = append(all, "/"+string(mode), "/"+string(mode)+"/"+string(FindView))
	}
	return all
}

// ScopeOfView returns the scope of a view by its name: one of [ViewPaths] without the first
// slash, or "full" or nothing for all tools, with the schemas of the setting. ok is false
// for another name.
func ScopeOfView(name string) (scope Scope, ok bool) {
	switch {
	case name == "" || name == "full":
		return Scope{}, true
	case !slices.Contains(ViewPaths(), "/"+name):
		return Scope{}, false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == string(FindView) {
			scope.View = FindView
		} else {
			scope.Schemas = schemas.Mode(part)
		}
	}
	return scope, true
}

// finds reports whether a list begins with the tools of the find view.
func (s Scope) finds(kind mcp.Kind) bool { return s.View == FindView && kind == mcp.Tool }

// findViewTools returns the tools of the find view as clients of each revision can take
// them.
var findViewTools = sync.OnceValue(func() (all [revision.Count][][]byte) {
	for rev := range all {
		for _, t := range findview.Tools() {
			all[rev] = append(all[rev], revision.Item(revision.Versions[rev], mcp.Tool, t.Raw))
		}
	}
	return all
})

// listed returns the routes that a list may hold, sorted by exposed name.
func (s *Snapshot) listed(c *Catalog, scope Scope, kind mcp.Kind) []*Route {
	if !scope.finds(kind) {
		return scope.of(c.lists[kind].entries)
	}
	var pinned []*Route
	for _, name := range s.pinnedIn(scope) {
		if r := c.lists[kind].find(name); r != nil && scope.has(r.Server) {
			pinned = append(pinned, r)
		}
	}
	return pinned
}

// lists reports whether a list of a scope holds a route that the caller may view.
func (s *Snapshot) lists(scope Scope, r *Route) bool {
	return !scope.finds(r.Kind) || slices.Contains(s.pinnedIn(scope), r.Exposed)
}

func (s *Snapshot) pinnedIn(scope Scope) []string {
	if s.pins == nil {
		return nil
	}
	return s.pins(scope.Capsule)
}

// schemasIn returns how the schemas of tools are listed in a scope.
func (s *Snapshot) schemasIn(scope Scope) schemas.Mode { return cmp.Or(scope.Schemas, s.schemas) }

type schemasKey struct{}

func listedAs(ctx context.Context, mode schemas.Mode) context.Context {
	return context.WithValue(ctx, schemasKey{}, cmp.Or(mode, schemas.Verbatim))
}

// SchemasOf returns how the schemas of tools were listed to the caller of a native tool, for
// [Scope]: arguments of another call that the caller wrote are made for these. It is empty
// where the context has no caller.
func SchemasOf(ctx context.Context) schemas.Mode {
	mode, _ := ctx.Value(schemasKey{}).(schemas.Mode)
	return mode
}

// asking returns the exchange with another request in place of that of its client.
func (x *Exchange) asking(method string, params []byte, limits mcp.Limits) (*Exchange, error) {
	message, err := mcp.Parse(mcp.AppendRequest(nil, x.Message.ID, method, params), limits)
	if err != nil {
		return nil, err
	}
	other := *x
	other.Message, other.over = message, nil
	return &other, nil
}

// callTool answers tools/call. The find view's own tools are answered here. Every other
// name is one of a tool, also in the find view.
func callTool(g *Gateway, ctx context.Context, x *Exchange) response {
	via, ok := x.Message.ParamString("name")
	if !ok || x.Scope.View != FindView || !findview.Has(via) {
		return callMethod(mcp.Tool, "name")(g, ctx, x)
	}
	if via == findview.FindTools || via == findview.DescribeTools {
		return g.newRequest(x, &planSearch, mcp.Tool, via).serve(ctx)
	}
	inner, err := findview.ParseCall(via, x.Message.Param("arguments"), g.front.parseLimits())
	if err != nil {
		return g.refuseCall(x, mcp.Tool, via, refusal.BadArguments(err.Error()+"."))
	}
	params := mcp.SetMember(mcp.SetMember(x.Message.Params(), "name", mcp.Quote(inner.Name)), "arguments", inner.Arguments)
	direct, err := x.asking(x.Message.Method, params, g.front.parseLimits()) // as if its client had called the tool directly
	if err != nil {
		return g.refuseCall(x, mcp.Tool, via, refusal.BadArguments(err.Error()+"."))
	}
	direct.Header = nil // the headers of the client mirror nothing of that call
	waitCall(ctx, g, direct, mcp.Tool, inner.Name)
	c := g.newRequest(direct, &planFound, mcp.Tool, inner.Name)
	c.via, c.rec.entry.Via = via, via
	return c.serve(ctx)
}

// prepareFound refuses a call by another tool of the find view than the annotations of
// the called one demand, and prepares it otherwise.
func prepareFound(c *call) error {
	if right := findview.CallOf(c.route.raw); right != c.via {
		return refusal.WrongCall(c.route.Exposed, c.via, right)
	}
	return prepareCall(c)
}

// maxEchoedSchema bounds a schema that a refusal repeats.
const maxEchoedSchema = 8 << 10

// checkFound is [checkCall] for a caller that may not have seen the schema: a refusal of
// the arguments tells it.
func checkFound(c *call) error {
	err := checkCall(c)
	refused, ok := err.(*refusal.Error) //nolint:errorlint // as checkCall returns it
	if !ok || refused.Kind != "invalid_arguments" {
		return err
	}
	schema := mcp.Lookup(c.route.listed(revision.Of(c.x.Version), c.snap.schemasIn(c.x.Scope)), "inputSchema")
	if len(schema) == 0 || len(schema) > maxEchoedSchema {
		return err
	}
	told := *refused
	told.Text += "\nThe schema of the arguments: " + string(schema)
	return &told
}

// checkSearch counts a search as a list.
func checkSearch(c *call) error {
	c.rec.noteFields(c.name, c.x.Message.Param("arguments"))
	return c.g.requests.Take(limit.Lists, c.x.Identity.Key())
}

// finder finds what callers may view.
type finder struct {
	g     *Gateway
	index *findview.Index[*gate.Capability]
	views audienceViews
}

// update puts the catalogs of a snapshot into the search index.
func (f *finder) update(s *Snapshot) {
	catalogs := s.everyCatalog()
	servers := make(map[string]string)
	for _, c := range catalogs {
		for _, of := range c.servers {
			if of.listing == nil || s.registry != nil && !s.registry.ShowsInstructionsToAll(of.backend.Name(), of.listing.Instructions) {
				continue
			}
			servers[of.backend.Name()] = of.listing.Instructions
		}
	}
	f.views.clear()
	f.index.Set(&findview.Catalog[*gate.Capability]{Servers: servers, Items: func(yield func(*gate.Capability, func() find.Item) bool) {
		for _, c := range catalogs {
			for _, kind := range mcp.Kinds {
				for _, r := range c.lists[kind].entries {
					if !yield(r.Capability, r.findable) {
						return
					}
				}
			}
		}
	}})
}

// findable returns what can be found of a route.
func (r *Route) findable() find.Item {
	sum := sha256.Sum256(r.raw)
	item := find.Item{
		Kind: r.Kind, Name: r.Exposed, Server: r.Server, Hash: r.Kind.String() + r.Exposed + "\x00" + r.Server + "\x00" + string(sum[:]),
		ReadOnly: findview.CallOf(r.raw) == findview.CallRead,
	}
	item.Title, _ = mcp.LookupString(r.raw, "title")
	item.Description, _ = mcp.LookupString(r.raw, "description")
	if r.Kind == mcp.Tool {
		item.Schema = mcp.Lookup(r.raw, "inputSchema")
	}
	return item
}

// answerSearch answers a search or a description.
func answerSearch(c *call) (response, error) {
	g, x := c.g, c.x
	g.waitList(c.ctx, x, mcp.Tool)
	g.finder.index.Await(c.ctx)
	args := x.Message.Param("arguments")
	answer := g.finder.search
	if c.name == findview.DescribeTools {
		answer = g.finder.describe
	}
	structured, shown, err := answer(c.ctx, g.snapshot.Load(), x, args)
	if err != nil {
		return response{}, err
	}
	c.rec.entry.Shown = shown
	result := make([]byte, 0, len(structured)*9/4+len(g.serverMeta)+256) // the text has some escapes
	result = append(result, '{')
	if x.Era == mcp.Modern { // as modernResult would
		result = append(append(append(result, `"resultType":"complete","_meta":{`...), g.serverMeta...), "},"...)
	}
	result = append(mcp.AppendQuote(append(result, `"content":[{"type":"text","text":`...), string(structured)), "}]"...)
	if x.Version >= mcp.V20250618 {
		result = append(append(result, `,"structuredContent":`...), structured...)
	}
	return response{result: append(result, '}')}, nil
}

// queryOf is a query as the index is asked.
func queryOf(q findview.Query) find.Query {
	return find.Query{Text: q.Text, Server: q.Server, Kinds: []mcp.Kind{q.Kind}, Limit: q.Limit}
}

// search answers [findview.FindTools].
func (f *finder) search(ctx context.Context, snap *Snapshot, x *Exchange, args []byte) (structured []byte, shown []string, err error) {
	q, err := findview.ParseQuery(args)
	if err != nil {
		return nil, nil, refusal.BadArguments(err.Error() + ".")
	}
	r, err := f.rank(ctx, snap, x, q, false, true)
	if err != nil {
		return nil, nil, err
	}
	a := findview.Answer{More: r.More, Notes: r.Notes}
	for i := range r.Hits {
		a.Found = append(a.Found, r.Hits[i].Found)
	}
	structured, shown = a.Render(q.Detail, snap.answerTokens)
	if told := f.g.opts.Searched; told != nil && r.view != nil {
		told(Searched{Identity: x.Identity, Query: queryOf(q), View: r.view, Shown: shown})
	}
	return structured, shown, nil
}

// describe answers [findview.DescribeTools].
func (f *finder) describe(ctx context.Context, snap *Snapshot, x *Exchange, args []byte) (structured []byte, shown []string, err error) {
	names, err := findview.ParseNames(args)
	if err != nil {
		return nil, nil, refusal.BadArguments(err.Error() + ".")
	}
	v, err := f.view(ctx, snap, x)
	if err != nil {
		return nil, nil, err
	}
	var found []findview.Found
	var unknown []findview.Unknown
	catalog := snap.Catalog(x)
	for _, name := range names {
		if one, ok := f.named(ctx, catalog, x, name); ok {
			found = append(found, one)
			continue
		}
		if err := f.g.requests.Take(limit.UnknownNames, x.Identity.Key()); err != nil {
			return nil, nil, err
		}
		unknown = append(unknown, findview.Unknown{Name: name, Near: f.near(ctx, x, v, name)})
	}
	structured, shown = findview.Describe(found, unknown, maxDescribed*snap.answerTokens)
	return structured, shown, nil
}

// named returns what a caller is told of what is listed under a name.
func (f *finder) named(ctx context.Context, c *Catalog, x *Exchange, name string) (findview.Found, bool) {
	for _, kind := range mcp.Kinds {
		if r := c.lists[kind].find(name); r != nil && x.Scope.has(r.Server) {
			if one, ok := f.found(ctx, x, r); ok {
				return one, true
			}
		}
	}
	return findview.Found{}, false
}

// maxDescribed is how many times the size of a search a description may have: what it
// returns was asked for by name.
const maxDescribed = 4

// found returns what a caller is told of a route. ok is false where the caller may not
// view it by the newest gate.
func (f *finder) found(ctx context.Context, x *Exchange, r *Route) (one findview.Found, ok bool) {
	snap := f.g.snapshot.Load()
	if d := snap.view(ctx, x, r); d.Err != nil || d.Effect != gate.Allow {
		return one, false
	}
	one = findview.Found{Name: r.Exposed, Server: r.Server, Kind: r.Kind, Definition: r.listed(revision.Of(x.Version), snap.schemasIn(x.Scope))}
	if r.Kind != mcp.Tool {
		return one, true
	}
	// Whether it may be called may depend on the arguments, so the gate is not asked.
	demands, err := snap.checkTool(ctx, x, r)
	if refused, is := err.(*refusal.Error); is { //nolint:errorlint // as checkTool returns it
		one.Refused = refused.Text
	}
	one.Approval = one.Refused == "" && len(demands) > 0
	return one, true
}

// maxNear is how many names that may be meant are told.
const maxNear = 3

// near returns names that a caller may view and may mean.
func (f *finder) near(ctx context.Context, x *Exchange, v *searchable, name string) (names []string) {
	if v == nil {
		return nil
	}
	for _, i := range v.Nearest(name, maxNear) {
		if one, ok := f.found(ctx, x, v.routes[i]); ok {
			names = append(names, one.Name)
		}
	}
	return names
}

// unknown is the refusal of a call by the find view of a name that does not exist for
// the caller.
func (f *finder) unknown(c *call) error {
	v, err := f.view(c.ctx, c.snap, c.x)
	if err != nil {
		v = nil
	}
	return refusal.UnknownFound(c.name, f.near(c.ctx, c.x, v, c.name), findview.FindTools)
}

// notes says why something may be missing, for servers of which the caller may view
// something. For a search that found nothing it says where there is something. own is true
// if the caller itself asks: only then it is told where to sign in.
func (f *finder) notes(ctx context.Context, snap *Snapshot, x *Exchange, v *searchable, q findview.Query, nothing, own bool) []string {
	var names, notes []string
	for _, of := range snap.Catalog(x).servers {
		name := of.backend.Name()
		_, status := of.backend.Listing()
		if !x.Scope.has(name) || q.Server != "" && q.Server != name || status.State == mcp.Disabled {
			continue
		}
		why := of.missing(x, status.State, own)
		if why == "" && !nothing {
			continue
		}
		if some, err := snap.viewsAny(ctx, x.Identity, x.Scope, of); err != nil || !some {
			continue
		}
		names = append(names, name)
		if why != "" {
			notes = append(notes, why)
		}
	}
	held := v.heldNote(q)
	if held != "" {
		notes = append([]string{held}, notes...)
	}
	if nothing && (held == "" || len(names) > 0) {
		notes = append([]string{findview.NoteNothing(q.Server, names)}, notes...)
	}
	return notes
}

// missing says why something of a server may be missing for a caller, empty for nothing.
// Where callers have credentials of their own, the state of the server is that of all
// callers together, so it says nothing of this one.
func (s *backendEntry) missing(x *Exchange, state mcp.State, own bool) string {
	name, m := s.backend.Name(), s.mount
	each := m.SignInTool != nil
	switch {
	case each && m.SignIn != nil && (state == mcp.NeedsLogin || !s.listedTo(x)):
		address := ""
		if own {
			address = m.SignIn(x.Identity, nil)
		}
		return findview.NoteSignIn(name, address)
	case each && state == mcp.NeedsLogin:
		return findview.NoteNoCredential(name)
	case each, s.listing != nil && (state == mcp.Ready || state == mcp.Degraded):
		return ""
	case state == mcp.NeedsLogin:
		return findview.NoteOperator(name)
	case s.listing == nil:
		return findview.NoteStarting(name)
	}
	return findview.NoteDown(name)
}

// heldNote says how much of what a search could have found is held, empty for nothing.
func (v *searchable) heldNote(q findview.Query) string {
	if v == nil {
		return ""
	}
	counts := make(map[string]int)
	for of, n := range v.held {
		if of.kind == q.Kind && (q.Server == "" || q.Server == of.server) {
			counts[of.server] = n
		}
	}
	return findview.NoteHeld(q.Kind, counts)
}

// Ranking is how a search ranks what a caller may view.
type Ranking struct {
	Hits []Ranked
	More int // further matches
	// Steps are the steps that the query was read as; nil for one.
	Steps []string
	Notes []string

	view *find.View // what the caller may view; nil before the first index
}

// Ranked is one thing found.
type Ranked struct {
	findview.Found
	Score   float64
	Reasons []find.Reason // most important first
}

// Rank ranks what a caller may view within a scope for a query, with the reasons. It
// waits for servers that start, like a first list.
func Rank(ctx context.Context, g *Gateway, id *gate.Identity, scope Scope, q findview.Query) (Ranking, error) {
	g.first.For(ctx, scope.Server, false)
	g.finder.index.Await(ctx)
	x := &Exchange{Identity: id, Scope: scope, Era: mcp.Modern, Version: mcp.LatestModern}
	return g.finder.rank(ctx, g.snapshot.Load(), x, q, true, false)
}

// rank ranks what a caller may view, with the reasons if they are wanted. own is true if
// the caller itself asks.
func (f *finder) rank(ctx context.Context, snap *Snapshot, x *Exchange, q findview.Query, explain, own bool) (r Ranking, err error) {
	v, err := f.view(ctx, snap, x)
	if err != nil {
		return r, err
	}
	if v != nil {
		asked := queryOf(q)
		asked.Explain, asked.Boost = explain, find.Advise(ctx, f.g.opts.Advisers, find.Caller{Tenant: x.Identity.Tenant, Principal: x.Identity.Key()}, q.Text, v.View)
		result := v.Search(asked)
		r.view, r.More, r.Steps = v.View, result.More, result.Steps
		for _, h := range result.Hits {
			if one, ok := f.found(ctx, x, v.routes[h.Item]); ok {
				r.Hits = append(r.Hits, Ranked{one, h.Score, h.Reasons})
			}
		}
	}
	r.Notes = f.notes(ctx, snap, x, v, q, len(r.Hits) == 0, own)
	return r, nil
}
