package proxy

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/revision"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// list answers one page of a list: what the caller may view, sorted by exposed name,
// after the cursor.
func (g *Gateway) list(ctx context.Context, x *Exchange, kind mcp.Kind) response {
	if err := g.requests.Take(limit.Lists, x.Identity.Key()); err != nil {
		return g.refuse(x, err)
	}
	g.waitList(ctx, x, kind)
	snap := g.snapshot.Load()
	catalog := snap.Catalog(x)
	catalog.notifyListed(x)
	entries := snap.listed(catalog, x.Scope, kind)
	key := pageKey{kind: kind, era: x.Era, revision: revision.Of(x.Version), scope: x.Scope}
	cursor := x.Message.Param("cursor")
	first := cursor == nil || string(cursor) == "null"
	if !first {
		last, fault := g.openCursor(x, kind, cursor)
		if fault != nil {
			return errorResponse(fault)
		}
		at, found := slices.BinarySearchFunc(entries, last, func(r *Route, name string) int {
			return strings.Compare(r.Exposed, name)
		})
		if found {
			at++
		}
		key.start = at
	}
	p, body, err := g.page(ctx, snap, catalog, x, entries, key)
	if err != nil {
		return g.refuse(x, err)
	}
	if first && kind == mcp.Tool {
		g.opts.Metrics.listed(x.Identity.Persona, len(p.routes))
	}
	next := ""
	if p.more {
		if next, err = g.opts.Keys.Seal(seal.Cursor, cursorContext(x, kind), []byte(p.routes[len(p.routes)-1].Exposed)); err != nil {
			return g.internalError("seal a cursor", err)
		}
	}
	return response{result: body, rest: g.renderRest(catalog, x, kind, p, next)}
}

// page returns the page that starts at an entry, and the beginning of the result with it,
// see [renderItems].
func (g *Gateway) page(ctx context.Context, snap *Snapshot, catalog *Catalog, x *Exchange, entries []*Route, key pageKey) (*page, []byte, error) {
	if kept := catalog.pages.find(key); kept != nil && snap.Chain.ViewedAll(x.Identity, x.Scope.Capsule, kept.seen) {
		return kept.page, kept.body, nil
	}
	p, err := snap.visible(ctx, x, entries[key.start:], &g.opts.Limits)
	if err != nil {
		return nil, nil, err
	}
	if p.find = x.Scope.finds(key.kind); !p.find {
		p.hide(ctx, snap, x, key.kind)
	}
	if !p.whole {
		return p, renderItems(p, key), nil
	}
	made := catalog.pages.get(key, func() *keptPage { return keep(p, entries, key) })
	if catalog.pages.find(key) == made {
		snap.Chain.LearnViews(ctx, x.Identity, x.Scope.Capsule, made.seen)
	}
	return p, made.body, nil
}

// notifyListed tells the backends in scope that a caller is shown their lists.
func (c *Catalog) notifyListed(x *Exchange) {
	for _, s := range c.servers {
		if s.mount.ListsServed != nil && x.Scope.has(s.backend.Name()) {
			s.mount.ListsServed(x.Identity)
		}
	}
}

// page is the content of one list result.
type page struct {
	routes []*Route
	size   int                    // bytes of the items
	more   bool                   // the caller may view more after it
	whole  bool                   // nothing is hidden up to its end, so that it is the same for every caller of whom that holds
	hidden map[*backendEntry]bool // servers of which the caller may view nothing in this list, up to the end of the page
	find   bool                   // it begins with the tools of the find view

	schemas schemas.Mode // of tools
}

// items returns what the page lists, for clients of a revision.
func (p *page) items(rev revision.Index) [][]byte {
	var all [][]byte
	if p.find {
		all = append(all, findViewTools()[rev]...)
	}
	for _, r := range p.routes {
		all = append(all, r.listed(rev, p.schemas))
	}
	return all
}

// ttl is how long the page is fresh. That of the find view depends on nothing but the
// tools that it lists.
func (p *page) ttl(c *Catalog, kind mcp.Kind, scope Scope) time.Duration {
	if !p.find {
		return c.ttl(kind, scope, p.hidden)
	}
	least := emptyListTTL
	for _, r := range p.routes {
		if own, contributes := r.to.ttl(kind); contributes {
			least = min(least, own)
		}
	}
	return least
}

// visible asks the gate about the entries until a page is full.
func (s *Snapshot) visible(ctx context.Context, x *Exchange, entries []*Route, limits *Limits) (*page, error) {
	p := &page{whole: true, schemas: s.schemasIn(x.Scope), routes: make([]*Route, 0, min(len(entries), limits.Page))}
	for r, d := range s.views(ctx, x.Identity, x.Scope, entries) {
		switch {
		case d.Err != nil && !d.Undecidable():
			return nil, refusal.Undecided(d)
		case d.Effect != gate.Allow:
			if p.whole = false; p.hidden == nil {
				p.hidden = make(map[*backendEntry]bool)
			}
			if _, known := p.hidden[r.to]; !known {
				p.hidden[r.to] = !p.shows(r.to)
			}
		case len(p.routes) == limits.Page || len(p.routes) > 0 && p.size+len(r.raw) > limits.PageBytes:
			p.more = true
			return p, nil
		default:
			p.routes, p.size = append(p.routes, r), p.size+len(r.raw)+1
			if p.hidden[r.to] {
				p.hidden[r.to] = false
			}
		}
	}
	return p, nil
}

// shows reports whether an item of a server is on the page.
func (p *page) shows(s *backendEntry) bool {
	return slices.ContainsFunc(p.routes, func(r *Route) bool { return r.to == s })
}

// hide reduces the hidden servers to those of which the caller may view nothing at all.
// Only servers that change the lifetime of the page are looked at.
func (p *page) hide(ctx context.Context, snap *Snapshot, x *Exchange, kind mcp.Kind) {
	if len(p.hidden) == 0 {
		return
	}
	least := snap.Catalog(x).ttl(kind, x.Scope, p.hidden)
	for s, hidden := range p.hidden {
		if own, contributes := s.ttl(kind); !hidden || !contributes || own >= least {
			continue
		}
		if some, err := snap.viewsAny(ctx, x.Identity, x.Scope, s); some || err != nil {
			p.hidden[s] = false
		}
	}
}

// renderItems returns the beginning of the result with a page: all but what
// [Gateway.renderRest] returns.
func renderItems(p *page, key pageKey) []byte {
	body := make([]byte, 0, p.size+64)
	body = append(body, '{')
	if key.era == mcp.Modern {
		body = append(body, `"resultType":"complete",`...)
	}
	body = append(body, '"')
	body = append(body, key.kind.ListKey()...)
	body = append(body, `":[`...)
	for i, item := range p.items(key.revision) {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, item...)
	}
	return append(body, ']')
}

// renderRest returns the end of the result with a page.
func (g *Gateway) renderRest(c *Catalog, x *Exchange, kind mcp.Kind, p *page, next string) []byte {
	rest := make([]byte, 0, len(next)+len(g.serverMeta)+96)
	if next != "" {
		rest = append(rest, `,"nextCursor":`...)
		rest = mcp.AppendQuote(rest, next)
	}
	if x.Era == mcp.Modern {
		rest = g.appendCaching(rest, p.ttl(c, kind, x.Scope).Milliseconds())
	}
	return append(rest, '}')
}

// pageKey identifies a page as it is rendered for callers of a revision and scope who may
// view all of it.
type pageKey struct {
	kind     mcp.Kind
	era      mcp.Era
	revision revision.Index
	scope    Scope
	start    int // index of its first entry
}

// keptPage is a page on which nothing is hidden.
type keptPage struct {
	*page
	body []byte          // see [renderItems]
	seen *gate.Selection // what a caller has to view so that it is theirs: its entries, and the one behind them
}

// keep renders a page on which nothing is hidden.
func keep(p *page, entries []*Route, key pageKey) *keptPage {
	end := key.start + len(p.routes)
	if p.more {
		end++ // who may not view it has another end of the page
	}
	seen := make([]*gate.Capability, 0, end-key.start)
	for _, r := range entries[key.start:end] {
		seen = append(seen, r.Capability)
	}
	return &keptPage{p, renderItems(p, key), gate.NewSelection(seen)}
}

// maxKeptPages bounds the bytes of the pages that a catalog keeps.
const maxKeptPages = 64 << 20

// keptPages are the rendered pages of the lists of a catalog, each made at first use. It
// keeps those that a caller who views everything comes to, so that each list is kept once,
// wherever others have been. The zero value is ready. It is safe for concurrent use.
type keptPages struct {
	mu    sync.Mutex
	made  map[pageKey]func() *keptPage
	pages map[pageKey]*keptPage // which are made; revisions with the same rendering share its bytes
	ends  map[pageKey]struct{}  // where a page begins that follows a kept one
	size  int                   // of the bytes of pages
}

// find returns a page, nil where it is not made.
func (k *keptPages) find(key pageKey) *keptPage {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pages[key]
}

// get returns a page, from render at first use or where it is not to be kept.
func (k *keptPages) get(key pageKey, render func() *keptPage) *keptPage {
	k.mu.Lock()
	made := k.made[key]
	switch {
	case made != nil:
	case !k.follows(key):
		made = render
	default:
		made = sync.OnceValue(func() *keptPage { return k.shared(key, render()) })
		if k.made == nil {
			k.made, k.pages, k.ends = make(map[pageKey]func() *keptPage), make(map[pageKey]*keptPage), make(map[pageKey]struct{})
		}
		k.made[key] = made
	}
	k.mu.Unlock()
	return made()
}

// follows reports whether a page is the first one or begins where a kept one ends; mu is held.
func (k *keptPages) follows(key pageKey) bool {
	if key.start == 0 {
		return true
	}
	_, follows := k.ends[key]
	return follows
}

// put keeps a page that is made; mu is held.
func (k *keptPages) put(key pageKey, p *keptPage) {
	k.pages[key] = p
	if p.more {
		key.start += len(p.routes)
		k.ends[key] = struct{}{}
	}
}

// shared keeps a page, with the bytes of the equal one of another revision. It does not keep
// one for which there is no room.
func (k *keptPages) shared(key pageKey, p *keptPage) *keptPage {
	k.mu.Lock()
	defer k.mu.Unlock()
	same := key
	for same.revision = range revision.Count {
		if other := k.pages[same]; other != nil && bytes.Equal(other.body, p.body) {
			p.body = other.body
			k.put(key, p)
			return p
		}
	}
	if k.size+len(p.body) > maxKeptPages {
		delete(k.made, key)
		return p
	}
	k.size += len(p.body)
	k.put(key, p)
	return p
}

// appendCaching appends the lifetime and maker of a modern list result (2026-07-28
// server/utilities/caching). A result that depends on the caller is private.
func (g *Gateway) appendCaching(body []byte, ttl int64) []byte {
	body = append(body, `,"ttlMs":`...)
	body = strconv.AppendInt(body, ttl, 10)
	body = append(body, `,"cacheScope":"private","_meta":{`...)
	body = append(body, g.serverMeta...)
	return append(body, '}')
}

// cursorContext binds a cursor to its list and caller.
func cursorContext(x *Exchange, kind mcp.Kind) string {
	return kind.ListMethod() + "\x00" + x.Scope.key() + "\x00" + x.Identity.Key()
}

// openCursor returns the exposed name after which a page starts.
func (g *Gateway) openCursor(x *Exchange, kind mcp.Kind, raw []byte) (string, *mcp.Error) {
	text, err := mcp.Unquote(raw)
	if err == nil {
		var last []byte
		if last, err = g.opts.Keys.Open(seal.Cursor, cursorContext(x, kind), text); err == nil {
			return string(last), nil
		}
	}
	g.log.Info("refused a cursor that was not made for this caller and list", "principal", x.Identity.Key(), "list", kind.ListMethod())
	return "", mcp.Errorf(mcp.CodeInvalidParams, "Invalid cursor")
}

// question is what the gate is asked about a route.
func (r *Route) question(action gate.Action, id *gate.Identity, scope Scope) gate.Request {
	return r.Request(action, id, scope.Capsule)
}

// waitList delays a list during the start. A client that listens for changes of the
// list does not wait: it is told of them.
func (g *Gateway) waitList(ctx context.Context, x *Exchange, kind mcp.Kind) {
	g.first.For(ctx, x.Scope.Server, !g.first.Required() && x.Era == mcp.Modern && listensFor(g.listens.list(), x, kind))
}

// listensFor reports whether a caller listens for changes of a list.
func listensFor(all []*listen, x *Exchange, kind mcp.Kind) bool {
	return slices.ContainsFunc(all, func(l *listen) bool {
		return l.wants(kind.Changed()) && l.x.Scope == x.Scope && l.x.Identity.Key() == x.Identity.Key()
	})
}

// waitCall delays a call during the start, while its server is unknown.
func waitCall(ctx context.Context, g *Gateway, x *Exchange, kind mcp.Kind, name string) {
	if from := g.snapshot.Load().Catalog(x).serverFor(kind, name, x.Scope); from != nil {
		g.first.For(ctx, from.backend.Name(), false)
	}
}

// WaitFirst sets how long first lists, and initialize, wait for starting servers
// because the user wants that. Call it before the gateway serves.
func (g *Gateway) WaitFirst(d time.Duration) { g.first.Require(d) }
