package proxy

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/names"
)

const (
	// maxQueuedNotifications and maxQueuedNotificationBytes bound what one server has said and nobody was told yet;
	// a single message may be of any size. Beyond that news are merged, see
	// [Gateway.merged].
	maxQueuedNotifications     = 256
	maxQueuedNotificationBytes = 1 << 20
	// maxMergedTaskBytes bounds the state of a task that is kept beyond that, in bytes.
	maxMergedTaskBytes = 4 << 10
	// notificationWait is how long a server that has said something waits at most until
	// it is told: what it says before an answer comes to the client before that.
	notificationWait = 10 * time.Millisecond
)

// lastChange is what servers said outside of calls, on its way to clients. The gate decides
// who may hear of it, which can take the time of a policy server. Each server has a
// queue of its own, so that nobody who reads answers from a server waits for that, and
// no server for what another one says. A queue has a goroutine as long as something is
// in it, which the gateway waits for when it ends.
type notificationRelay struct {
	g      *Gateway
	mu     sync.Mutex
	closed bool
	queues map[string]*notificationQueue // by server
}

// notificationQueue is the news of one server.
type notificationQueue struct {
	waiting []*queuedNotification // oldest first
	bytes   int
	latest  map[topic]*queuedNotification // that waits
	full    bool                          // more came than there is room for, which is said once
}

// queuedNotification is something that a server said.
type queuedNotification struct {
	ev      mcp.Event
	topic   topic
	relayed chan struct{} // closed when whoever may hear of it has
}

// topic is what some news is about, and whose connection it came over. Where too much
// waits, later news take the place of earlier ones that are about the same.
type topic struct {
	principal, session, rights, conn string
	plain                            bool
	era                              mcp.Era
	method, about                    string // a resource or a task
}

func topicOf(ev *mcp.Event) topic {
	t := topic{ev.Principal, ev.Session, ev.Rights, ev.Conn, ev.Plain, ev.Era, ev.Method, ""}
	switch ev.Method {
	case mcp.NotifyResourceUpdated:
		t.about, _ = mcp.LookupString(ev.Params, "uri")
	case mcp.NotifyTaskStatus:
		t.about, _ = mcp.LookupString(ev.Params, "taskId")
	}
	return t
}

// Happened takes what a server said outside any call. It goes to whom it belongs, and
// to nobody when that cannot be told. Happened does not wait for who decides about
// that, but for a moment.
func (g *Gateway) Happened(ev mcp.Event) {
	if ev.Method == mcp.NotifyTaskStatus {
		if id, ok := mcp.LookupString(ev.Params, "taskId"); ok {
			g.tasks.legacy.update(taskKey{taskPlace{ev.Server, ev.Conn}, id}, ev.Params)
		}
	}
	if !g.notifications.hasRecipients(&ev) {
		return
	}
	told, ok := g.notifications.put(ev, false)
	if !ok {
		for _, ev := range g.notifications.merged(&ev) {
			g.notifications.put(ev, true)
		}
	}
	if told == nil {
		return
	}
	patience := time.NewTimer(notificationWait)
	defer patience.Stop()
	select {
	case <-told:
	case <-patience.C:
	}
}

// put adds some news, and tells whether there is room; there is for what was merged.
// The channel is closed when it is told. It is nil where others wait to be.
func (n *notificationRelay) put(ev mcp.Event, merged bool) (told <-chan struct{}, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, true
	}
	q, waits := n.queues[ev.Server]
	switch {
	case !waits:
		q = &notificationQueue{latest: make(map[topic]*queuedNotification)}
		n.queues[ev.Server] = q
		n.g.wg.Go(func() { n.relayQueue(ev.Server, q) }) // ends when nothing waits
	case !merged && !q.room(len(ev.Params)):
		if !q.full {
			q.full = true
			n.g.log.Warn("a server says more than clients can be told in time; what it says of the same resource or task is merged, and other messages are dropped",
				"server", ev.Server)
		}
		return nil, false
	}
	it := q.add(ev, merged)
	if waits {
		return nil, true
	}
	return it.relayed, true
}

// room tells whether there is room for some news of so many bytes.
func (q *notificationQueue) room(size int) bool {
	return len(q.waiting) == 0 || len(q.waiting) < maxQueuedNotifications && q.bytes+size <= maxQueuedNotificationBytes
}

// add puts some news at the end, or where it was merged in the place of what waits of
// the same.
func (q *notificationQueue) add(ev mcp.Event, merged bool) *queuedNotification {
	ev.Params = bytes.Clone(ev.Params) // and none of the message around them
	about := topicOf(&ev)
	q.bytes += len(ev.Params)
	if it := q.latest[about]; merged && it != nil {
		q.bytes -= len(it.ev.Params)
		it.ev = ev
		return it
	}
	it := &queuedNotification{ev: ev, topic: about, relayed: make(chan struct{})}
	q.waiting = append(q.waiting, it)
	q.latest[about] = it
	return it
}

// wakeWaiters tells the news of a server until nothing waits.
func (n *notificationRelay) relayQueue(server string, q *notificationQueue) {
	for it := n.take(server, q); it != nil; it = n.take(server, q) {
		n.g.notifications.relay(&it.ev)
		close(it.relayed)
	}
}

// take returns the oldest news of a server. Where there is none the queue is no more.
func (n *notificationRelay) take(server string, q *notificationQueue) *queuedNotification {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(q.waiting) == 0 {
		delete(n.queues, server)
		return nil
	}
	it := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	q.bytes -= len(it.ev.Params)
	if q.latest[it.topic] == it {
		delete(q.latest, it.topic)
	}
	return it
}

// close ends all queues: what waits is told to nobody.
func (n *notificationRelay) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for _, q := range n.queues {
		for _, it := range q.waiting {
			close(it.relayed)
		}
		q.waiting = nil
	}
}

// merged returns what takes the place of some news for which there is no room: that
// the resources have changed which were subscribed to, or what has become of a task.
// There are as many as there are subscriptions and tasks. Other news are dropped.
func (n *notificationRelay) merged(ev *mcp.Event) []mcp.Event {
	switch ev.Method {
	case mcp.NotifyTaskStatus:
		if len(ev.Params) <= maxMergedTaskBytes {
			return []mcp.Event{*ev}
		}
	case mcp.NotifyResourceUpdated:
		uri, _ := mcp.LookupString(ev.Params, "uri")
		whole := make(map[string]bool)
		var all []mcp.Event
		for _, c := range n.g.watches.subscribersOf(ev, uri) {
			if whole[c.uri] {
				continue
			}
			whole[c.uri] = true
			one := *ev
			one.Params = append(append([]byte(`{"uri":`), mcp.Quote(c.uri)...), '}')
			all = append(all, one)
		}
		return all
	}
	return nil
}

// relay tells some news to whom it belongs. It asks the gate who may hear of it, which
// may take as long as a policy server does.
func (n *notificationRelay) relay(ev *mcp.Event) {
	switch ev.Method {
	case mcp.NotifyResourceUpdated:
		n.resourceUpdated(ev)
	case mcp.NotifyTaskStatus:
		n.taskStatus(ev)
	case mcp.NotifyMessage, mcp.NotifyElicitComplete:
		for _, s := range n.sessionsOf(ev) {
			n.notifySession(s, ev)
		}
	}
}

// hasRecipients tells whether there is anybody to whom some news belongs, before the gate
// is asked whether they may hear of it.
func (n *notificationRelay) hasRecipients(ev *mcp.Event) bool {
	switch ev.Method {
	case mcp.NotifyResourceUpdated:
		uri, ok := mcp.LookupString(ev.Params, "uri")
		return ok && len(n.g.watches.subscribersOf(ev, uri)) > 0
	case mcp.NotifyTaskStatus:
		_, ok := n.taskOf(ev)
		return ok
	case mcp.NotifyMessage:
		return slices.ContainsFunc(n.sessionsOf(ev), func(s *Session) bool { return s.wantsMessage(ev.Params) })
	case mcp.NotifyElicitComplete:
		return len(n.sessionsOf(ev)) > 0
	}
	return false
}

// recipient is a subscriber with the URI that it subscribed to, as its server has it.
type recipient struct {
	who subscriber
	uri string
}

// subscribersOf returns the subscribers of a resource, or of one that it is part of, that
// share the connection which the news came over.
func (ws *resourceSubscriptions) subscribersOf(ev *mcp.Event, uri string) []recipient {
	ws.g.watches.mu.Lock()
	defer ws.g.watches.mu.Unlock()
	var all []recipient
	for key, watchers := range ws.g.watches.of {
		if !key.concerns(ev) || !partOf(uri, key.uri) {
			continue
		}
		for w, as := range watchers {
			principal, session := w.owner()
			if (ev.Principal == "" || ev.Principal == principal) && (ev.Session == "" || ev.Session == session) &&
				(ev.Rights == "" || ev.Rights == as.Rights()) {
				all = append(all, recipient{w, key.uri})
			}
		}
	}
	return all
}

// resourceUpdated tells the subscribers of a resource, or of one that it is part of,
// that may read both at this moment.
func (n *notificationRelay) resourceUpdated(ev *mcp.Event) {
	uri, ok := mcp.LookupString(ev.Params, "uri")
	s := n.g.snapshot.Load().catalog.byServer[ev.Server]
	if !ok || s == nil {
		return
	}
	params := mcp.RewriteMeta(names.ExposeURIs(s.mount.Namespace, mcp.NotifyResourceUpdated, ev.Params), nil)
	for _, c := range n.g.watches.subscribersOf(ev, uri) {
		if n.mayReceive(c.who, ev.Rights, names.URI(s.mount.Namespace, c.uri)) &&
			(c.uri == uri || n.mayReceive(c.who, ev.Rights, names.URI(s.mount.Namespace, uri))) {
			c.who.updated(params)
		}
	}
}

// mayReceive tells whether a subscriber may hear of a resource at this moment, of which a
// connection with some rights told, or one that has none of its own.
func (n *notificationRelay) mayReceive(w subscriber, rights, exposed string) bool {
	for _, x := range w.exchanges() {
		snap := n.g.snapshot.Load()
		route := snap.resolve(x.Identity, mcp.Resource, exposed, x.Scope)
		if route == nil || rights != "" && x.Identity.Rights() != rights {
			return false
		}
		// It is not the subscriber who asks: what is hidden from it counts for nothing.
		demands, err := n.g.permit(n.g.life, x, route, nil, nil, hiddenUnlessUndecided(func() error { return unknown(x, route.Kind, route.Exposed) }))
		if err != nil || len(demands) > 0 {
			return false
		}
		if demands, err = snap.checkTool(n.g.life, x, route); err != nil || len(demands) > 0 {
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
func (n *notificationRelay) sessionsOf(ev *mcp.Event) []*Session {
	if ev.Principal == "" {
		return nil
	}
	if ev.Session != "" {
		if s := n.g.sessions.get(ev.Session); s != nil && s.hasRights(ev.Rights) {
			return []*Session{s}
		}
		return nil
	}
	var all []*Session
	for _, s := range n.g.sessions.listOf(ev.Principal) {
		if s.scope.has(ev.Server) && s.hasRights(ev.Rights) {
			all = append(all, s)
		}
	}
	return all
}

// mayViewServer tells whether all who hear a session may view something of a server.
func (n *notificationRelay) mayViewServer(s *Session, server string) bool {
	snap := n.g.snapshot.Load()
	return allOf(s.recipients(), func(id *gate.Identity) bool {
		of := snap.catalogOf(id, s.clientFeatures()).byServer[server]
		if of == nil || of.listing == nil {
			return false
		}
		some, err := snap.viewsAny(n.g.life, id, s.scope, of)
		return some && err == nil
	})
}

// wantsMessage tells whether a session has asked for a log message.
func (s *Session) wantsMessage(params []byte) bool {
	s.mu.Lock()
	level := s.level
	s.mu.Unlock()
	return wanted(params, level)
}

// notifySession tells a session what its server said outside of calls, as far as it has asked
// for that and may see anything of the server.
func (n *notificationRelay) notifySession(s *Session, ev *mcp.Event) {
	to := n.g.snapshot.Load().catalog.byServer[ev.Server]
	if to == nil {
		return
	}
	params := ev.Params
	if ev.Method == mcp.NotifyMessage {
		if !s.wantsMessage(params) {
			return
		}
		params = namespacedLogger(to.mount.Namespace, to.redaction(n.g).members(params, "data", "logger"))
	}
	if !n.mayViewServer(s, ev.Server) {
		return
	}
	s.notify(mcp.AppendNotification(nil, ev.Method, mcp.RewriteMeta(params, nil)))
}
