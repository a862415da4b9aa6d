package proxy

import (
	"context"
	"sync"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// resourceKey identifies a resource at its server.
type resourceKey struct {
	server, uri     string
	withoutFeatures bool    // on a connection without client features
	era             mcp.Era // of the connection, where the server speaks both
}

// watchKey returns the key under which subscriptions to the resource are kept.
func (r *Route) watchKey() resourceKey {
	key := resourceKey{server: r.Server, uri: r.Original, withoutFeatures: r.to.isWithoutFeatures}
	if to := r.to.base(); to.otherEra != nil {
		key.era = r.to.listing.Era
	}
	return key
}

// concerns reports whether a notification may be about the resource, by its connection.
func (k *resourceKey) concerns(ev *mcp.Event) bool {
	return k.server == ev.Server && k.withoutFeatures == ev.WithoutCapabilities && (k.era == mcp.EraUnknown || k.era == ev.Era)
}

// subscriber is told about updates: a legacy session or a modern listen.
type subscriber interface {
	updated(params []byte)
	owner() (principal, session string)
	exchanges() []*Exchange // all of them must be allowed to hear an update
}

// subscription is one resource that a subscriber watches.
type subscription struct {
	key   resourceKey
	route *Route
	x     *Exchange // who subscribed
}

// subscribed returns a new subscription of a client.
func subscribed(x *Exchange, r *Route) *subscription {
	who := x.client()
	who.Session = x.Session
	return &subscription{r.watchKey(), r, who}
}

// resourceSubscriptions knows the subscribers of each resource. It is safe for
// concurrent use.
type resourceSubscriptions struct {
	g *Gateway

	mu sync.Mutex
	of map[resourceKey]map[subscriber]*gate.Identity // with the identity that subscribed
}

// resourceNamed serves a request about the resource that it names, under a plan.
func resourceNamed(p *plan) func(*Gateway, context.Context, *Exchange) response {
	return func(g *Gateway, ctx context.Context, x *Exchange) response {
		uri, ok := x.Message.ParamString("uri")
		if !ok {
			return g.refuseCall(x, mcp.Resource, "", mcp.Errorf(mcp.CodeInvalidParams, `Invalid params: "uri" must be a string`))
		}
		return g.newRequest(x, p, mcp.Resource, uri).serve(ctx)
	}
}

// listenTo subscribes who to a resource for subscriptions/listen, and returns the
// subscription.
func (g *Gateway) listenTo(ctx context.Context, x *Exchange, who subscriber, uri string) (*subscription, error) {
	c := g.newRequest(x, &planListenTo, mcp.Resource, uri)
	c.watcher = who
	if err := c.pass(ctx); err != nil {
		return nil, err
	}
	return subscribed(x, c.route), nil
}

// findResource resolves the URI of a subscription.
func findResource(c *call) error {
	r := c.snap.Catalog(c.x).resolve(mcp.Resource, c.name, c.x.Scope)
	if r == nil {
		return c.unknownName(gate.Decision{})
	}
	c.setRoute(r)
	return nil
}

// checkSubscription checks a subscription against the rules and the mode in force, like
// a read of the resource.
func checkSubscription(c *call) error {
	more, err := c.g.snapshot.Load().checkTool(c.ctx, c.x, c.route)
	if err == nil && len(c.demands)+len(more) > 0 {
		err = refusal.Unapproved("A subscription cannot wait for the approval that this resource needs; read it instead.")
	}
	return err
}

// checkBudgetsLeft refuses a subscription when a budget of the caller is used up. The
// subscription counts towards request rates, but uses nothing that budgets count.
func checkBudgetsLeft(c *call) error {
	_, err := c.snap.standings(c.ctx, c.x.Identity, c.x.Scope, c.route)
	return err
}

// checkWatchLimits is checkBudgetsLeft for a session, which also has a limit of watched
// resources.
func checkWatchLimits(c *call) error {
	if err := checkBudgetsLeft(c); err != nil {
		return err
	}
	if c.x.Session.watches(c.name) >= c.g.opts.Limits.Watches {
		return refusal.TooManyResources
	}
	return nil
}

// startListening adds the resource to a subscriptions/listen request.
func startListening(c *call) (response, error) {
	return empty, c.g.watches.watch(c.ctx, c.x, c.watcher, c.route)
}

// startWatch adds the resource to the session of the request.
func startWatch(c *call) (response, error) {
	g, session := c.g, c.x.Session
	if err := g.watches.watch(c.ctx, c.x, session, c.route); err != nil {
		return response{}, err
	}
	sub := subscribed(c.x, c.route)
	before, ok := session.subscribe(c.name, sub)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), settleTimeout)
	defer cancel()
	if !ok {
		g.watches.unwatch(ctx, session, sub)
		return response{}, errSessionEnded
	}
	session.saveState()
	switch {
	case before == nil:
	case before.key != sub.key: // the server or its features have changed
		g.watches.unwatch(ctx, session, before)
	default:
		g.watches.unsubscribeAt(ctx, session, before)
	}
	return empty, nil
}

// endWatch ends a subscription of the session.
func endWatch(c *call) (response, error) {
	if sub := c.x.Session.unsubscribe(c.name); sub != nil {
		c.setRoute(sub.route)
		c.g.watches.unwatch(c.ctx, c.x.Session, sub)
		c.x.Session.saveState()
	}
	return empty, nil
}

// subscribe adds a subscription to the session and returns the one that it replaces. ok
// is false when the session has ended.
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

// unsubscribe removes a subscription and returns it, nil where there is none.
func (s *Session) unsubscribe(uri string) *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subscribed[uri]
	delete(s.subscribed, uri)
	return sub
}

// watches returns how many resources the session watches, without besides.
func (s *Session) watches(besides string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.subscribed)
	if s.subscribed[besides] != nil {
		n--
	}
	return n
}

// watch adds a subscriber to a resource. The first subscriber of a connection
// subscribes at the server.
func (ws *resourceSubscriptions) watch(ctx context.Context, x *Exchange, who subscriber, r *Route) error {
	key := r.watchKey()
	ws.mu.Lock()
	if ws.of[key] == nil {
		ws.of[key] = make(map[subscriber]*gate.Identity)
	}
	first, before := !ws.watched(key, r.to, x.Identity, who), ws.of[key][who]
	ws.of[key][who] = x.Identity
	ws.mu.Unlock()
	if !first {
		return nil
	}
	params := append(append([]byte(`{"uri":`), mcp.Quote(r.Original)...), '}')
	call := ws.g.newCall(x, r.to, mcp.MethodSubscribe, params)
	call.Notify, call.Progress, call.Ask = nil, false, nil
	got, err := r.to.backend.Call(ctx, call)
	if err == nil && got.Fault != nil {
		err = ws.g.upstreamFault(x, r, nil, got)
	}
	if err != nil {
		ws.mu.Lock()
		if before != nil {
			ws.of[key][who] = before
		} else {
			ws.removeWatcher(key, who)
		}
		ws.mu.Unlock()
	}
	return err
}

// watched reports whether somebody already watches a resource over the connection of an
// identity and subscriber; mu is held.
func (ws *resourceSubscriptions) watched(key resourceKey, at *backendEntry, id *gate.Identity, who subscriber) bool {
	holder, session := at.connectionKey(id), at.session(who)
	for w, as := range ws.of[key] {
		if _, s := w.owner(); at.connectionKey(as) == holder && (session == "" || s == session) {
			return true
		}
	}
	return false
}

// connectionKey identifies who shares the server's state with a caller.
func (s *backendEntry) connectionKey(id *gate.Identity) string {
	if !s.mount.PerRights {
		return id.Key()
	}
	return id.Key() + "\x00" + id.Rights()
}

// session returns the session of a subscriber where the server keeps sessions apart,
// else an empty string.
func (s *backendEntry) session(who subscriber) string {
	if !s.mount.PerSession {
		return ""
	}
	_, session := who.owner()
	return session
}

// removeWatcher removes a subscriber from a resource; mu is held.
func (ws *resourceSubscriptions) removeWatcher(key resourceKey, who subscriber) {
	delete(ws.of[key], who)
	if len(ws.of[key]) == 0 {
		delete(ws.of, key)
	}
}

// unwatch removes a subscriber from a resource.
func (ws *resourceSubscriptions) unwatch(ctx context.Context, who subscriber, sub *subscription) {
	ws.mu.Lock()
	ws.removeWatcher(sub.key, who)
	ws.mu.Unlock()
	ws.unsubscribeAt(ctx, who, sub)
}

// unsubscribeAt ends a subscription at its server, as the caller who made it, unless
// another subscriber uses it.
func (ws *resourceSubscriptions) unsubscribeAt(ctx context.Context, who subscriber, sub *subscription) {
	x := sub.x
	ws.mu.Lock()
	last := !ws.watched(sub.key, sub.route.to, x.Identity, who)
	ws.mu.Unlock()
	if !last {
		return
	}
	params := append(append([]byte(`{"uri":`), mcp.Quote(sub.key.uri)...), '}')
	call := ws.g.newCall(x, sub.route.to, mcp.MethodUnsubscribe, params)
	call.Notify, call.Progress, call.Ask = nil, false, nil
	if _, err := sub.route.to.backend.Call(ctx, call); err != nil {
		ws.g.log.Debug("not unsubscribed", "server", sub.key.server, "err", err)
	}
}

// unsubscribeAll ends the subscriptions of a session that has ended.
func (ws *resourceSubscriptions) unsubscribeAll(s *Session) {
	s.mu.Lock()
	subs := s.subscribed
	s.subscribed = nil
	s.mu.Unlock()
	if len(subs) == 0 {
		return
	}
	ws.g.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), settleTimeout)
		defer cancel()
		for _, sub := range subs {
			ws.unwatch(ctx, s, sub)
		}
	})
}

func (s *Session) owner() (principal, session string) { return s.principal, s.id }

// exchanges implements [subscriber].
func (s *Session) exchanges() []*Exchange {
	var all []*Exchange
	for _, id := range s.recipients() {
		all = append(all, &Exchange{Identity: id, Scope: s.scope, Session: s, Era: mcp.Legacy})
	}
	return all
}

// updated implements [subscriber].
func (s *Session) updated(params []byte) {
	s.notify(mcp.AppendNotification(nil, mcp.NotifyResourceUpdated, params))
}
