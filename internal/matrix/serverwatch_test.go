//go:build e2e

package matrix

import (
	"slices"

	"github.com/toolgate/toolgate/internal/mcp"
)

// watched tells the cell of a resource that it is, or is no longer, subscribed
// to. Such resources are named after their cells.
func (s *scripted) watched(uri string, on bool) {
	word := map[bool]string{true: "subscribed", false: "unsubscribed"}[on]
	if id, ok := cutPrefix(uri, watchPrefix); ok {
		s.board.say(id, word, uri)
	}
}

// disturb makes a resource change whenever the gateway changes what it is
// subscribed to on a connection: with every resources/subscribe, and with every
// subscriptions/listen that ends.
func (s *scripted) disturb(uri string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.restless, uri); on {
		s.restless[uri] = true
	}
}

// disturbed lets those of the resources change that are restless.
func (s *scripted) disturbed(uris []string) {
	for _, uri := range uris {
		s.mu.Lock()
		restless := s.restless[uri]
		s.mu.Unlock()
		if restless {
			s.updated(uri)
		}
	}
}

// listen keeps a subscription open (2026-07-28 basic/patterns/subscriptions).
func (in *incoming) listen() {
	p := in.p
	filter := in.msg.Param("notifications")
	meta := `"_meta":{"` + mcp.MetaSubscriptionID + `":` + string(in.msg.ID) + `}`
	in.notify(mcp.NotifyAcknowledged, `{`+meta+`,"notifications":`+string(filter)+`}`)
	p.mu.Lock()
	p.listens[in.msg.ID.Key()] = in
	p.mu.Unlock()
	for _, uri := range in.filterURIs() {
		p.s.watched(uri, true)
	}
	<-in.ctx.Done()
	p.mu.Lock()
	delete(p.listens, in.msg.ID.Key())
	var still []string
	for _, other := range p.listens {
		still = append(still, other.filterURIs()...)
	}
	p.mu.Unlock()
	for _, uri := range in.filterURIs() {
		if !slices.Contains(still, uri) {
			p.s.watched(uri, false)
		}
	}
	p.s.disturbed(in.filterURIs())
}

func (in *incoming) filterURIs() []string {
	var uris []string
	asked := mcp.Lookup(in.msg.Param("notifications"), "resourceSubscriptions")
	for e := range mcp.Elements(asked) {
		uri, _ := mcp.Unquote(e.Of(asked))
		uris = append(uris, uri)
	}
	return uris
}

// updated tells who subscribed that a resource has changed.
func (s *scripted) updated(uri string) {
	for _, p := range s.connected() {
		p.mu.Lock()
		if p.subs[uri] {
			p.aside(mcp.AppendNotification(nil, mcp.NotifyResourceUpdated, []byte(`{"uri":`+string(mcp.Quote(uri))+`}`)))
		}
		for _, in := range p.listens {
			if slices.Contains(in.filterURIs(), uri) {
				in.notify(mcp.NotifyResourceUpdated, `{"_meta":{"`+mcp.MetaSubscriptionID+`":`+string(in.msg.ID)+`},"uri":`+string(mcp.Quote(uri))+`}`)
			}
		}
		p.mu.Unlock()
	}
}

// change adds something to every list and says so to whoever wants to know.
func (s *scripted) change() int {
	s.mu.Lock()
	s.changes++
	n := s.changes
	s.mu.Unlock()
	for _, p := range s.connected() {
		p.mu.Lock()
		for _, c := range []mcp.Kind{mcp.Tool, mcp.Prompt, mcp.Resource} {
			if !s.kind.modern() && p.ready {
				p.aside(mcp.AppendNotification(nil, c.Changed(), nil))
			}
			for _, in := range p.listens {
				if string(mcp.Lookup(in.msg.Param("notifications"), c.Feature()+"ListChanged")) == "true" {
					in.notify(c.Changed(), `{"_meta":{"`+mcp.MetaSubscriptionID+`":`+string(in.msg.ID)+`}}`)
				}
			}
		}
		p.mu.Unlock()
	}
	return n
}
