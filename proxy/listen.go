package proxy

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// listen is one subscriptions/listen request of a modern client (2026-07-28
// basic/patterns/subscriptions).
type listen struct {
	x       *Exchange
	methods map[string]bool // list changes that it wants
	meta    []byte          // the member of _meta that names the subscription
	box     *mailbox
	revoked chan struct{} // closed when its caller may not go on
	tasks   []*listened   // for the goroutine that follows them

	mu   sync.Mutex
	subs []*subscription
}

// serveListen answers subscriptions/listen: it stays open, acknowledges what it
// will honour and then delivers it until the client or the gateway ends it.
func serveListen(g *Gateway, ctx context.Context, x *Exchange) reply {
	filter := x.Message.Param("notifications")
	if !mcp.IsObject(filter) {
		return faulty(mcp.Errorf(mcp.CodeInvalidParams, `Invalid params: "notifications" must be an object`))
	}
	l := &listen{
		x: x, methods: make(map[string]bool), box: g.newMailbox(), revoked: make(chan struct{}),
		meta: append([]byte(`"`+mcp.MetaSubscriptionID+`":`), x.Message.ID...),
	}
	asked := mcp.Lookup(filter, "taskIds")
	if asked != nil && !x.knowsTasks() {
		return faulty(errNoTasks)
	}
	if !g.listens.add(l) {
		return g.refuse(x, refusal.TooManySubscriptions)
	}
	defer g.endListen(l)
	l.tasks = g.tasks.tasksIn(ctx, x, asked)
	x.way.ask(ctx, l.acknowledge(ctx, g, filter)) // waits for a place in the queue
	if len(l.tasks) > 0 {
		following, stop := context.WithCancel(ctx)
		var follower sync.WaitGroup
		follower.Go(func() { l.follow(following, g) })
		defer follower.Wait()
		defer stop()
	}
	for {
		select {
		case <-l.box.ready:
			if raw := l.box.take(); raw != nil {
				x.way.ask(ctx, raw)
			}
		case <-ctx.Done():
			if g.life.Err() != nil {
				continue // on a shared channel both end at once
			}
			return reply{silent: true}
		case <-x.inputEnded():
			return reply{silent: true}
		case <-l.revoked:
			return reply{silent: true}
		case <-g.life.Done():
			return reply{result: append(append([]byte(`{"resultType":"complete","_meta":{`), l.meta...), "}}"...)}
		}
	}
}

// acknowledge takes up what the filter asks for and returns the notification
// that says what of it is honoured.
func (l *listen) acknowledge(ctx context.Context, g *Gateway, filter []byte) []byte {
	honoured := []byte(`{`)
	member := func(text string) {
		if len(honoured) > 1 {
			honoured = append(honoured, ',')
		}
		honoured = append(honoured, text...)
	}
	for _, kind := range []mcp.Capability{mcp.Tool, mcp.Prompt, mcp.Resource} {
		name := kind.Feature() + "ListChanged"
		if string(mcp.Lookup(filter, name)) == "true" {
			l.mu.Lock()
			l.methods[kind.Changed()] = true
			l.mu.Unlock()
			member(`"` + name + `":true`)
		}
	}
	if asked := mcp.Lookup(filter, "resourceSubscriptions"); mcp.IsArray(asked) {
		list := []byte(`"resourceSubscriptions":[`)
		count := 0
		for e := range mcp.Elements(asked) {
			uri, err := mcp.Unquote(e.Of(asked))
			if err != nil || count == g.opts.Limits.Watches || !l.watch(ctx, g, uri) {
				continue
			}
			if count++; count > 1 {
				list = append(list, ',')
			}
			list = mcp.AppendQuote(list, uri)
		}
		member(string(append(list, ']')))
	}
	if mcp.IsArray(mcp.Lookup(filter, "taskIds")) {
		list := []byte(`"taskIds":[`)
		for i, t := range l.tasks {
			if i > 0 {
				list = append(list, ',')
			}
			list = mcp.AppendQuote(list, t.sealed)
		}
		member(string(append(list, ']')))
	}
	params := append([]byte(`{"_meta":{`), l.meta...)
	params = append(params, `},"notifications":`...)
	params = append(params, honoured...)
	return mcp.AppendNotification(nil, mcp.NotifyAcknowledged, append(params, "}}"...))
}

func (l *listen) watch(ctx context.Context, g *Gateway, uri string) bool {
	sub, err := g.listenTo(ctx, l.x, l, uri)
	if err != nil {
		return false
	}
	l.mu.Lock()
	l.subs = append(l.subs, sub)
	l.mu.Unlock()
	return true
}

func (l *listen) owner() (principal, session string) {
	return l.x.Identity.Key(), l.x.sessionID()
}

// asks implements [subscriber].
func (l *listen) asks() []*Exchange { return []*Exchange{l.x} }

// updated implements [subscriber].
func (l *listen) updated(params []byte) {
	l.box.offer(mcp.AppendNotification(nil, mcp.NotifyResourceUpdated, mcp.RewriteMeta(params, l.meta)))
}

// wants tells whether the client listens to changes of a list.
func (l *listen) wants(method string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.methods[method]
}

// listChanged tells the client about a changed list, if it wants to know.
func (l *listen) listChanged(method string) {
	if l.wants(method) {
		l.box.offer(mcp.AppendNotification(nil, method, mcp.RewriteMeta(nil, l.meta)))
	}
}

// listens are the subscriptions that are open. They are safe for concurrent use.
type listens struct {
	each int // of one principal, at most

	mu  sync.Mutex
	all map[*listen]bool
}

// add registers a subscription within the cap of its principal.
func (t *listens) add(l *listen) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := 0
	for other := range t.all {
		if other.x.Identity.Key() == l.x.Identity.Key() {
			own++
		}
	}
	if own >= t.each {
		return false
	}
	t.all[l] = true
	return true
}

// remove forgets a subscription.
func (t *listens) remove(l *listen) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, l)
}

// list returns the subscriptions that are open now.
func (t *listens) list() []*listen {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.all))
}

// revoke ends the subscriptions of callers that keep does not know any more.
func (t *listens) revoke(keep func(*gate.Identity) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.all {
		if !keep(l.x.Identity) {
			close(l.revoked)
			delete(t.all, l)
		}
	}
}

// endListen ends a subscription with all that it watches.
func (g *Gateway) endListen(l *listen) {
	g.listens.remove(l)
	l.mu.Lock()
	subs := l.subs
	l.subs = nil
	l.mu.Unlock()
	if len(subs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	for _, sub := range subs {
		g.watches.unwatch(ctx, l, sub)
	}
}
