package proxy

import (
	"context"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
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
		return route, refusal.Unapproved("A subscription cannot wait for the approval that this resource needs; read it instead.")
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
			err = refusal.TooManyResources
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
