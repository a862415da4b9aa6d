package proxy

import (
	"context"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// resourceKey is a resource at its server.
type resourceKey struct {
	server, uri string
	plain       bool    // on a connection that was told nothing can be asked
	era         mcp.Era // of the connection, where the server speaks both
}

// watchKey names a resource where it is subscribed to.
func (r *Route) watchKey() resourceKey {
	key := resourceKey{server: r.Server, uri: r.Original, plain: r.to.isPlain}
	if to := r.to.base(); to.twin != nil {
		key.era = r.to.listing.Era
	}
	return key
}

// concerns tells whether news that came over a connection may be of the resource.
func (k *resourceKey) concerns(ev *mcp.Event) bool {
	return k.server == ev.Server && k.plain == ev.Plain && (k.era == mcp.EraUnknown || k.era == ev.Era)
}

// subscriber is who wants to hear of updates: a legacy session or a modern
// listen.
type subscriber interface {
	updated(params []byte)
	owner() (principal, session string)
	asks() []*Exchange // as whom: all of them have to be allowed to hear it
}

// subscription is one resource that a subscriber watches.
type subscription struct {
	key   resourceKey
	route *Route
	x     *Exchange // as whom it was made
}

// subscribed is the subscription of a client, as it is kept.
func subscribed(x *Exchange, r *Route) *subscription {
	who := x.client()
	who.Session = x.Session
	return &subscription{r.watchKey(), r, who}
}

// resource resolves the URI of a subscription and asks what a read of it would be
// asked: the gate, the mode and the rules, rates, and whether budgets have something
// left. A subscription is a request at a rate, and uses nothing that budgets count.
func (g *Gateway) resource(ctx context.Context, x *Exchange, uri string) (*Route, error) {
	snap := g.snapshot.Load()
	route := snap.Catalog(x).resolve(mcp.Resource, uri, x.Scope)
	if route == nil {
		return nil, g.unknownTo(x, mcp.Resource, uri)
	}
	demands, err := g.permit(ctx, x, route)
	if err != nil {
		return route, err
	}
	more, err := snap.examineTool(ctx, x, route)
	if err != nil {
		return route, err
	}
	if len(demands)+len(more) > 0 {
		return route, unapproved("A subscription cannot wait for the approval that this resource needs; read it instead.")
	}
	if snap.rates != nil {
		if err := snap.rates.Take(ctx, route.rated(x.Identity)); err != nil {
			return route, err
		}
	}
	_, err = snap.standings(ctx, x.Identity, x.Scope, route)
	return route, err
}

// subscribe answers resources/subscribe.
func (g *Gateway) subscribe(ctx context.Context, x *Exchange) (answer reply) {
	uri, ok := x.Message.ParamString("uri")
	if !ok {
		return g.refuseCall(x, mcp.Resource, "", mcp.Errorf(mcp.CodeInvalidParams, `Invalid params: "uri" must be a string`))
	}
	rec := g.newRecord(x, mcp.Resource, uri)
	defer func() { rec.close(&answer, recover()) }()
	route, err := g.resource(ctx, x, uri)
	if err == nil {
		rec.routed(route)
		if x.Session.watches(uri) >= g.opts.Limits.Watches {
			err = errTooManyWatches
		}
	}
	if err == nil {
		err = rec.begin()
	}
	if err == nil {
		err = g.watch(ctx, x, x.Session, route)
	}
	if err != nil {
		return g.refuse(x, rec.refused(err))
	}
	sub := subscribed(x, route)
	before, ok := x.Session.subscribe(uri, sub)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if !ok {
		g.unwatch(ctx, x.Session, sub)
		return g.refuse(x, rec.refused(errSessionEnded))
	}
	switch {
	case before == nil:
	case before.key != sub.key: // the server, or what it speaks, is another than it was
		g.unwatch(ctx, x.Session, before)
	default:
		g.unsubscribeAt(ctx, x.Session, before)
	}
	return empty
}

// subscribe keeps a subscription until the session ends, and returns the one that it
// takes the place of; ok is false when the session has ended.
func (s *Session) subscribe(uri string, sub *subscription) (before *subscription, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, false
	}
	if s.subscribed == nil {
		s.subscribed = make(map[string]*subscription)
	}
	before = s.subscribed[uri]
	s.subscribed[uri] = sub
	return before, true
}

// unsubscribe answers resources/unsubscribe.
func (g *Gateway) unsubscribe(ctx context.Context, x *Exchange) (answer reply) {
	uri, ok := x.Message.ParamString("uri")
	if !ok {
		return g.refuseCall(x, mcp.Resource, "", mcp.Errorf(mcp.CodeInvalidParams, `Invalid params: "uri" must be a string`))
	}
	rec := g.newRecord(x, mcp.Resource, uri)
	defer func() { rec.close(&answer, recover()) }()
	if err := rec.begin(); err != nil {
		return g.refuse(x, rec.refused(err))
	}
	x.Session.mu.Lock()
	sub := x.Session.subscribed[uri]
	delete(x.Session.subscribed, uri)
	x.Session.mu.Unlock()
	if sub != nil {
		rec.routed(sub.route)
		g.unwatch(ctx, x.Session, sub)
	}
	return empty
}

var errTooManyWatches = &Refusal{
	Kind: "too_many_subscriptions", Code: codeRate, Phase: "subscriptions",
	Text: "Too many resources are subscribed to (limits.watches); end one of the subscriptions first.",
}

// watches returns how many resources the session watches besides one.
func (s *Session) watches(besides string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.subscribed)
	if s.subscribed[besides] != nil {
		n--
	}
	return n
}

// watch adds a subscriber to a resource. The first of those who share a connection
// subscribes at the server.
func (g *Gateway) watch(ctx context.Context, x *Exchange, who subscriber, r *Route) error {
	key := r.watchKey()
	g.watchMu.Lock()
	if g.watchers[key] == nil {
		g.watchers[key] = make(map[subscriber]*gate.Identity)
	}
	first, before := !g.watched(key, r.to, x.Identity, who), g.watchers[key][who]
	g.watchers[key][who] = x.Identity
	g.watchMu.Unlock()
	if !first {
		return nil
	}
	params := append(append([]byte(`{"uri":`), mcp.Quote(r.Original)...), '}')
	call := g.newCall(x, r.to, mcp.MethodSubscribe, params)
	call.Notify, call.Progress, call.Ask = nil, false, nil
	got, err := r.to.backend.Call(ctx, call)
	if err == nil && got.Fault != nil {
		err = g.upstreamFault(x, r, nil, got)
	}
	if err != nil {
		g.watchMu.Lock()
		if before != nil {
			g.watchers[key][who] = before
		} else {
			g.removeWatcher(key, who)
		}
		g.watchMu.Unlock()
	}
	return err
}

// watched tells whether somebody watches a resource over the connection that an
// identity has for a subscriber; watchMu is held.
func (g *Gateway) watched(key resourceKey, at *served, id *gate.Identity, who subscriber) bool {
	holder, session := at.holder(id), at.session(who)
	for w, as := range g.watchers[key] {
		if _, s := w.owner(); at.holder(as) == holder && (session == "" || s == session) {
			return true
		}
	}
	return false
}

// holder names who shares what the server keeps for a caller.
func (s *served) holder(id *gate.Identity) string {
	if !s.mount.PerRights {
		return id.Key()
	}
	return id.Key() + "\x00" + id.Rights()
}

// session returns the session of a subscriber where the server keeps sessions
// apart, empty where it does not.
func (s *served) session(who subscriber) string {
	if !s.mount.PerSession {
		return ""
	}
	_, session := who.owner()
	return session
}

// removeWatcher takes a subscriber off a resource; watchMu is held.
func (g *Gateway) removeWatcher(key resourceKey, who subscriber) {
	delete(g.watchers[key], who)
	if len(g.watchers[key]) == 0 {
		delete(g.watchers, key)
	}
}

// unwatch takes a subscriber off a resource.
func (g *Gateway) unwatch(ctx context.Context, who subscriber, sub *subscription) {
	g.watchMu.Lock()
	g.removeWatcher(sub.key, who)
	g.watchMu.Unlock()
	g.unsubscribeAt(ctx, who, sub)
}

// unsubscribeAt ends a subscription at its server, as whom it was made, unless
// somebody else uses it.
func (g *Gateway) unsubscribeAt(ctx context.Context, who subscriber, sub *subscription) {
	x := sub.x
	g.watchMu.Lock()
	last := !g.watched(sub.key, sub.route.to, x.Identity, who)
	g.watchMu.Unlock()
	if !last {
		return
	}
	params := append(append([]byte(`{"uri":`), mcp.Quote(sub.key.uri)...), '}')
	call := g.newCall(x, sub.route.to, mcp.MethodUnsubscribe, params)
	call.Notify, call.Progress, call.Ask = nil, false, nil
	if _, err := sub.route.to.backend.Call(ctx, call); err != nil {
		g.log.Debug("not unsubscribed", "server", sub.key.server, "err", err)
	}
}

// unsubscribeAll ends the subscriptions of a session that has ended.
func (g *Gateway) unsubscribeAll(s *Session) {
	s.mu.Lock()
	subs := s.subscribed
	s.subscribed = nil
	s.mu.Unlock()
	if len(subs) == 0 {
		return
	}
	g.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), settleTime)
		defer cancel()
		for _, sub := range subs {
			g.unwatch(ctx, s, sub)
		}
	})
}

func (s *Session) owner() (principal, session string) { return s.principal, s.id }

// asks implements [subscriber].
func (s *Session) asks() []*Exchange {
	var all []*Exchange
	for _, id := range s.hearers() {
		all = append(all, &Exchange{Identity: id, Scope: s.scope, Session: s, Era: mcp.Legacy})
	}
	return all
}

// updated implements [subscriber].
func (s *Session) updated(params []byte) {
	s.notify(mcp.AppendNotification(nil, mcp.NotifyResourceUpdated, params))
}

// Happened takes what a server said outside any call. It goes to whom it
// belongs, and to nobody when that cannot be told.
func (g *Gateway) Happened(ev mcp.Event) {
	switch ev.Method {
	case mcp.NotifyResourceUpdated:
		g.resourceUpdated(ev)
	case mcp.NotifyTaskStatus:
		g.taskStatus(ev)
	case mcp.NotifyMessage, mcp.NotifyElicitComplete:
		for _, s := range g.sessionsOf(ev) {
			g.sayTo(s, ev)
		}
	}
}

// resourceUpdated tells the subscribers of a resource, or of one that it is
// part of, that share the connection which the news came over and may read both
// at this moment.
func (g *Gateway) resourceUpdated(ev mcp.Event) {
	uri, ok := mcp.LookupString(ev.Params, "uri")
	s := g.snapshot.Load().catalog.byServer[ev.Server]
	if !ok || s == nil {
		return
	}
	params := mcp.RewriteMeta(exposeURIs(s.mount.Namespace, mcp.NotifyResourceUpdated, ev.Params), nil)
	g.watchMu.Lock()
	type concern struct {
		who subscriber
		uri string // that it subscribed to
	}
	var concerned []concern
	for key, watchers := range g.watchers {
		if !key.concerns(&ev) || !partOf(uri, key.uri) {
			continue
		}
		for w, as := range watchers {
			principal, session := w.owner()
			if (ev.Principal == "" || ev.Principal == principal) && (ev.Session == "" || ev.Session == session) &&
				(ev.Rights == "" || ev.Rights == as.Rights()) {
				concerned = append(concerned, concern{w, key.uri})
			}
		}
	}
	g.watchMu.Unlock()
	for _, c := range concerned {
		if g.hears(c.who, ev.Rights, exposedURI(s.mount.Namespace, c.uri)) &&
			(c.uri == uri || g.hears(c.who, ev.Rights, exposedURI(s.mount.Namespace, uri))) {
			c.who.updated(params)
		}
	}
}

// hears tells whether a subscriber may hear of a resource at this moment, of which a
// connection with some rights told, or one that has none of its own.
func (g *Gateway) hears(w subscriber, rights, exposed string) bool {
	for _, x := range w.asks() {
		snap := g.snapshot.Load()
		route := snap.resolve(x.Identity, mcp.Resource, exposed, x.Scope)
		if route == nil || rights != "" && x.Identity.Rights() != rights {
			return false
		}
		// It is not the subscriber who asks: what is hidden from it counts for nothing.
		demands, err := g.permitOr(g.life, x, route, nil, nil, known(func() error { return unknown(x, route.Kind, route.Exposed) }))
		if err != nil || len(demands) > 0 {
			return false
		}
		if demands, err = snap.examineTool(g.life, x, route); err != nil || len(demands) > 0 {
			return false
		}
	}
	return true
}

// partOf tells whether a URI is that of a resource or of something within it: a
// longer name beside it is another resource.
func partOf(uri, whole string) bool {
	rest, ok := strings.CutPrefix(uri, whole)
	return ok && (rest == "" || strings.HasSuffix(whole, "/") || strings.ContainsRune("/?#", rune(rest[0])))
}

// sessionsOf returns the legacy sessions that an event belongs to: that of its
// connection, or where the connection is a principal's, all of that principal's. What
// a server says outside of calls is about the server as this principal uses it; which
// of its clients caused it cannot be told, and each of them would hear it on a
// connection of its own.
func (g *Gateway) sessionsOf(ev mcp.Event) []*Session {
	if ev.Principal == "" {
		return nil
	}
	if ev.Session != "" {
		if s := g.sessions.get(ev.Session); s != nil && s.ofRights(ev.Rights) {
			return []*Session{s}
		}
		return nil
	}
	var all []*Session
	for _, s := range g.sessions.listOf(ev.Principal) {
		if s.scope.has(ev.Server) && s.ofRights(ev.Rights) {
			all = append(all, s)
		}
	}
	return all
}

// knowsOf tells whether all who hear a session may view something of a server.
func (g *Gateway) knowsOf(s *Session, server string) bool {
	snap := g.snapshot.Load()
	return allOf(s.hearers(), func(id *gate.Identity) bool {
		of := snap.catalogOf(id, s.answers()).byServer[server]
		if of == nil || of.listing == nil {
			return false
		}
		some, err := snap.viewsAny(g.life, id, s.scope, of)
		return some && err == nil
	})
}

// sayTo tells a session what its server said outside of calls, as far as it has asked
// for that and may see anything of the server.
func (g *Gateway) sayTo(s *Session, ev mcp.Event) {
	to := g.snapshot.Load().catalog.byServer[ev.Server]
	if to == nil {
		return
	}
	params := ev.Params
	if ev.Method == mcp.NotifyMessage {
		s.mu.Lock()
		level := s.level
		s.mu.Unlock()
		if !wanted(params, level) {
			return
		}
		params = namespacedLogger(to.mount.Namespace, to.redaction(g).members(params, "data", "logger"))
	}
	if !g.knowsOf(s, ev.Server) {
		return
	}
	s.notify(mcp.AppendNotification(nil, ev.Method, mcp.RewriteMeta(params, nil)))
}
