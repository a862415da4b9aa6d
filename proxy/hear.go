package proxy

import (
	"slices"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/names"
)

// This file finds out who hears of what servers say outside of calls.

// relay tells some news to whom it belongs. It asks the gate who may hear of it, which
// may take as long as a policy server does.
func (n *news) relay(ev *mcp.Event) {
	switch ev.Method {
	case mcp.NotifyResourceUpdated:
		n.resourceUpdated(ev)
	case mcp.NotifyTaskStatus:
		n.taskStatus(ev)
	case mcp.NotifyMessage, mcp.NotifyElicitComplete:
		for _, s := range n.sessionsOf(ev) {
			n.sayTo(s, ev)
		}
	}
}

// hasHearers tells whether there is anybody to whom some news belongs, before the gate
// is asked whether they may hear of it.
func (n *news) hasHearers(ev *mcp.Event) bool {
	switch ev.Method {
	case mcp.NotifyResourceUpdated:
		uri, ok := mcp.LookupString(ev.Params, "uri")
		return ok && len(n.g.watches.concerned(ev, uri)) > 0
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

// concern is a subscriber with the URI that it subscribed to, as its server has it.
type concern struct {
	who subscriber
	uri string
}

// concerned returns the subscribers of a resource, or of one that it is part of, that
// share the connection which the news came over.
func (ws *watches) concerned(ev *mcp.Event, uri string) []concern {
	ws.g.watches.mu.Lock()
	defer ws.g.watches.mu.Unlock()
	var all []concern
	for key, watchers := range ws.g.watches.of {
		if !key.concerns(ev) || !partOf(uri, key.uri) {
			continue
		}
		for w, as := range watchers {
			principal, session := w.owner()
			if (ev.Principal == "" || ev.Principal == principal) && (ev.Session == "" || ev.Session == session) &&
				(ev.Rights == "" || ev.Rights == as.Rights()) {
				all = append(all, concern{w, key.uri})
			}
		}
	}
	return all
}

// resourceUpdated tells the subscribers of a resource, or of one that it is part of,
// that may read both at this moment.
func (n *news) resourceUpdated(ev *mcp.Event) {
	uri, ok := mcp.LookupString(ev.Params, "uri")
	s := n.g.snapshot.Load().catalog.byServer[ev.Server]
	if !ok || s == nil {
		return
	}
	params := mcp.RewriteMeta(names.ExposeURIs(s.mount.Namespace, mcp.NotifyResourceUpdated, ev.Params), nil)
	for _, c := range n.g.watches.concerned(ev, uri) {
		if n.hears(c.who, ev.Rights, names.URI(s.mount.Namespace, c.uri)) &&
			(c.uri == uri || n.hears(c.who, ev.Rights, names.URI(s.mount.Namespace, uri))) {
			c.who.updated(params)
		}
	}
}

// hears tells whether a subscriber may hear of a resource at this moment, of which a
// connection with some rights told, or one that has none of its own.
func (n *news) hears(w subscriber, rights, exposed string) bool {
	for _, x := range w.asks() {
		snap := n.g.snapshot.Load()
		route := snap.resolve(x.Identity, mcp.Resource, exposed, x.Scope)
		if route == nil || rights != "" && x.Identity.Rights() != rights {
			return false
		}
		// It is not the subscriber who asks: what is hidden from it counts for nothing.
		demands, err := n.g.permit(n.g.life, x, route, nil, nil, known(func() error { return unknown(x, route.Kind, route.Exposed) }))
		if err != nil || len(demands) > 0 {
			return false
		}
		if demands, err = snap.examineTool(n.g.life, x, route); err != nil || len(demands) > 0 {
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
func (n *news) sessionsOf(ev *mcp.Event) []*Session {
	if ev.Principal == "" {
		return nil
	}
	if ev.Session != "" {
		if s := n.g.sessions.get(ev.Session); s != nil && s.ofRights(ev.Rights) {
			return []*Session{s}
		}
		return nil
	}
	var all []*Session
	for _, s := range n.g.sessions.listOf(ev.Principal) {
		if s.scope.has(ev.Server) && s.ofRights(ev.Rights) {
			all = append(all, s)
		}
	}
	return all
}

// knowsOf tells whether all who hear a session may view something of a server.
func (n *news) knowsOf(s *Session, server string) bool {
	snap := n.g.snapshot.Load()
	return allOf(s.hearers(), func(id *gate.Identity) bool {
		of := snap.catalogOf(id, s.answers()).byServer[server]
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

// sayTo tells a session what its server said outside of calls, as far as it has asked
// for that and may see anything of the server.
func (n *news) sayTo(s *Session, ev *mcp.Event) {
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
	if !n.knowsOf(s, ev.Server) {
		return
	}
	s.notify(mcp.AppendNotification(nil, ev.Method, mcp.RewriteMeta(params, nil)))
}
