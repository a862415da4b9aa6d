package replica

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// Router passes requests on to the gateways that they belong to. A nil Router is that of a
// gateway alone: nothing is passed on, and ids name nobody.
type Router struct {
	Peers Peers
	Keys  *seal.Keyring
}

const (
	// tries bounds how often gateways are asked for one request.
	tries = 3
	// pause is how long a gateway is left alone before it is asked again.
	pause = 100 * time.Millisecond
)

// Self is the id of this gateway; empty where it is alone.
func (rt *Router) Self() string {
	if rt == nil {
		return ""
	}
	return rt.Peers.Self()
}

// Message is a request of a client, as far as it matters where it is served.
type Message struct {
	ID   mcp.ID // empty for none
	Body []byte // nil for none
	// Settles means that it belongs to a request under way, such as an answer to a question.
	Settles bool
	// Repeatable means that it can be served twice without a double effect.
	Repeatable bool
	// Asker is the gateway whose question it answers; empty for none.
	Asker string
}

// asks is what the ids of questions to clients begin with.
const asks = "toolgate-"

// NewAsker returns what the ids of the questions of a session begin with. Where gateways share
// their state, it names this one, and no other session object: a session that goes on
// elsewhere, or here once more, must not take an answer to another question for its own.
func (rt *Router) NewAsker() string {
	if rt == nil {
		return asks
	}
	return asks + rt.Self() + "-" + rand.Text()[:10] + "-"
}

// asker returns the gateway that a question comes from; empty where its id does not say it.
func asker(question mcp.ID) string {
	text, err := mcp.Unquote([]byte(question))
	rest, ours := strings.CutPrefix(text, asks)
	if err != nil || !ours || strings.Count(rest, "-") != 2 {
		return ""
	}
	member, _, _ := strings.Cut(rest, "-")
	return member
}

// Of is what matters of a message that was read.
func Of(msg *mcp.Message, body []byte) Message {
	request := msg.Kind == mcp.KindRequest
	m := Message{ID: msg.ID, Body: body, Settles: !request, Repeatable: !request || mcp.Repeatable(msg.Method)}
	if msg.Kind == mcp.KindResponse {
		m.Asker = asker(msg.ID)
	}
	return m
}

// Lost is the event that ends the stream of a request whose gateway is gone.
func (m *Message) Lost() []byte {
	return append(mcp.AppendFault([]byte("event: message\ndata: "), m.ID, refusal.GatewayLost(true)), "\n\n"...)
}

// Session passes a request of a legacy session on to the gateway that serves it. It reports
// whether the request was answered.
func (rt *Router) Session(w http.ResponseWriter, r *http.Request, id string, m Message) (passed bool) {
	if rt == nil || Forwarded(r.Context()) {
		return false
	}
	owner, _ := Cut(id)
	return owner != "" && rt.forward(w, r, m, func() string {
		if m.Asker != "" && rt.Peers.Alive(m.Asker) {
			return m.Asker
		}
		return rt.Peers.Home(owner, id, m.Settles)
	})
}

// Here reports whether this gateway serves the legacy session with an id.
func (rt *Router) Here(id string) bool {
	owner, _ := Cut(id)
	return rt == nil || owner == "" || rt.Peers.Home(owner, id, false) == rt.Peers.Self()
}

// Carried returns what the id of a session of another gateway says of it, so that it can be
// rebuilt here. It returns nil where it cannot, and for everybody but its principal.
func (rt *Router) Carried(id, principal string) *Session {
	if rt == nil {
		return nil
	}
	if owner, _ := Cut(id); owner == rt.Peers.Self() { // it has ended
		return nil
	}
	s, err := OpenSession(rt.Keys, id)
	if err != nil || string(s.Principal) != principal || !s.Rebuildable(time.Now()) {
		return nil
	}
	return &s
}

// Away passes on what a gateway that ends cannot begin any more. It reports whether the request
// was answered: with nobody to pass it to, and for one that was passed on already, it was not.
func (rt *Router) Away(w http.ResponseWriter, r *http.Request, m Message) (passed bool) {
	if rt == nil || Forwarded(r.Context()) {
		return false
	}
	key := rand.Text() // any gateway will do
	return rt.forward(w, r, m, func() string { return rt.Peers.Home(rt.Peers.Self(), key, false) })
}

// HeaderDeclined is set where a gateway that ends has not begun what was passed on to it.
const HeaderDeclined = "Toolgate-Declined"

// Decline answers a request that another gateway has passed on, and that has to go elsewhere.
func Decline(w http.ResponseWriter) {
	w.Header().Set(HeaderDeclined, "1")
	w.WriteHeader(http.StatusMisdirectedRequest)
}

// Owned passes a request on to the gateway that owns what it names, as long as that is
// there. It reports whether the request was answered.
func (rt *Router) Owned(w http.ResponseWriter, r *http.Request, owner string, m Message) (passed bool) {
	if rt == nil || owner == "" || Forwarded(r.Context()) {
		return false
	}
	m.Settles = true
	return rt.forward(w, r, m, func() string {
		if rt.Peers.Alive(owner) {
			return owner
		}
		return rt.Peers.Self()
	})
}

// forward passes a request on to the gateway that to names, which is asked again when that
// gateway is not there. It reports whether the request was answered.
func (rt *Router) forward(w http.ResponseWriter, r *http.Request, m Message, to func() string) bool {
	before := ""
	for range tries {
		at := to()
		if at == rt.Peers.Self() {
			return false
		}
		if at == before && backoff.Sleep(r.Context(), pause) != nil {
			return true // the client has left
		}
		before = at
		err := rt.Peers.Forward(w, r, at, m)
		lost, ok := errors.AsType[*LostError](err)
		switch {
		case !ok || r.Context().Err() != nil:
			return true
		case lost.MayHaveRun && !m.Repeatable:
			writeLost(w, m.ID, true)
			return true
		}
	}
	writeLost(w, m.ID, false)
	return true
}

// writeLost answers a request that no gateway has answered.
func writeLost(w http.ResponseWriter, id mcp.ID, mayHaveRun bool) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !mayHaveRun:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	case id == "": // nobody is told to send it again
		w.WriteHeader(http.StatusBadGateway)
	}
	_, _ = w.Write(mcp.AppendFault(nil, id, refusal.GatewayLost(mayHaveRun)))
}
