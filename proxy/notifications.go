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
	// maxQueuedNotifications and maxQueuedNotificationBytes bound the queue of one
	// server; a single message may be of any size. Beyond that notifications are
	// merged, see [notificationRelay.merged].
	maxQueuedNotifications     = 256
	maxQueuedNotificationBytes = 1 << 20
	// maxMergedTaskBytes bounds the state of a task in a merged notification.
	maxMergedTaskBytes = 4 << 10
	// notificationWait is how long a server's next message waits at most until the
	// notification is relayed. So a notification mostly reaches the client before a
	// response that the server sent after it.
	notificationWait = 10 * time.Millisecond
)

// notificationRelay sends clients the notifications of servers outside of calls. The
// gate decides who may receive them, which can take as long as a policy server does.
// Each server has a queue of its own, so that readers of responses do not wait for the
// gate, and no server waits for another. A queue has a goroutine while it is not empty.
// The gateway waits for it when it ends.
type notificationRelay struct {
	g      *Gateway
	mu     sync.Mutex
	closed bool
	queues map[string]*notificationQueue // by server
}

// notificationQueue holds the notifications of one server.
type notificationQueue struct {
	waiting []*queuedNotification // oldest first
	bytes   int
	latest  map[topic]*queuedNotification // queued, by topic
	full    bool                          // the overflow was logged
}

// queuedNotification is one notification of a server.
type queuedNotification struct {
	ev      mcp.Event
	topic   topic
	relayed chan struct{} // closed when its recipients have been told
}

// topic is what a notification is about, and the connection that it came over. When a
// queue is full, later notifications replace earlier ones of the same topic.
type topic struct {
	principal, session, rights, conn string
	plain                            bool
	era                              mcp.Era
	method, about                    string // URI of a resource or id of a task
}

func topicOf(ev *mcp.Event) topic {
	t := topic{ev.Principal, ev.Session, ev.Rights, ev.Conn, ev.WithoutCapabilities, ev.Era, ev.Method, ""}
	switch ev.Method {
	case mcp.NotifyResourceUpdated:
		t.about, _ = mcp.LookupString(ev.Params, "uri")
	case mcp.NotifyTaskStatus:
		t.about, _ = mcp.LookupString(ev.Params, "taskId")
	}
	return t
}

// Happened relays a notification that belongs to no call. It goes to those it belongs
// to, and to nobody when that is unknown. Happened waits at most a moment for the
// relay.
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

// put queues a notification and reports whether there was room. There always is for
// merged ones. relayed is closed when the notification was relayed; it is nil when
// others are queued before it.
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
		n.g.wg.Go(func() { n.relayQueue(ev.Server, q) }) // ends when the queue is empty
	case !merged && !q.room(len(ev.Params)):
		if !q.full {
			q.full = true
			n.g.log.Warn("a server sends notifications faster than they can be relayed; those about the same resource or task are merged, others are dropped",
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

// room reports whether the queue has room for a notification of size bytes.
func (q *notificationQueue) room(size int) bool {
	return len(q.waiting) == 0 || len(q.waiting) < maxQueuedNotifications && q.bytes+size <= maxQueuedNotificationBytes
}

// add appends a notification. A merged one replaces the queued one of its topic.
func (q *notificationQueue) add(ev mcp.Event, merged bool) *queuedNotification {
	ev.Params = bytes.Clone(ev.Params) // without the memory of the message around them
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

// relayQueue relays the notifications of a server until its queue is empty.
func (n *notificationRelay) relayQueue(server string, q *notificationQueue) {
	for it := n.take(server, q); it != nil; it = n.take(server, q) {
		n.relay(&it.ev)
		close(it.relayed)
	}
}

// take returns the oldest notification of a server. It removes an empty queue.
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

// close drops everything that is queued.
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

// merged returns what replaces a notification for which there is no room: an update of
// each subscribed resource, or the state of a task. Their number is bounded by the
// subscriptions and tasks. Other notifications are dropped.
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

// relay sends a notification to its recipients. It asks the gate, which may take as
// long as a policy server does.
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

// hasRecipients reports whether a notification has potential recipients, before the
// gate is asked about them.
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

// subscribersOf returns the subscribers of a resource, or of one that contains it, on
// the connection that the notification came over.
func (ws *resourceSubscriptions) subscribersOf(ev *mcp.Event, uri string) []recipient {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var all []recipient
	for key, watchers := range ws.of {
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

// resourceUpdated tells the subscribers of a resource, or of one that contains it, if
// they may read both at this moment.
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

// mayReceive reports whether a subscriber may be told about a resource at this moment.
// rights are those of the connection that the notification came over, empty where it
// has none of its own.
func (n *notificationRelay) mayReceive(w subscriber, rights, exposed string) bool {
	for _, x := range w.exchanges() {
		snap := n.g.snapshot.Load()
		route := snap.resolve(x.Identity, mcp.Resource, exposed, x.Scope)
		if route == nil || rights != "" && x.Identity.Rights() != rights {
			return false
		}
		// The server, not the subscriber, triggers this decision: hidden names do not
		// count as failed lookups.
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

// partOf reports whether a URI is a resource or something within it. A longer name
// beside it is another resource.
func partOf(uri, whole string) bool {
	rest, ok := strings.CutPrefix(uri, whole)
	return ok && (rest == "" || strings.HasSuffix(whole, "/") || strings.ContainsRune("/?#", rune(rest[0])))
}

// sessionsOf returns the legacy sessions that an event belongs to. A connection of a
// session has that session. A connection of a principal has all of the principal's
// sessions: the event is about the server as this principal uses it, and nothing tells
// which client caused it.
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

// mayViewServer reports whether all recipients of a session may view something of a
// server.
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

// wantsMessage reports whether a session has asked for a log message.
func (s *Session) wantsMessage(params []byte) bool {
	s.mu.Lock()
	level := s.level
	s.mu.Unlock()
	return wanted(params, level)
}

// notifySession relays a server's notification to a session that has asked for it and
// may view something of the server.
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
