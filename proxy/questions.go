package proxy

import (
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// This file polices what servers ask of clients (DESIGN 5, Questions from
// upstreams).

// mayAsk tells whether a server may put a question to a client: the operator
// allows it, the client declared it, it sends nobody to an unsafe place, and it
// is not one too many of this hour.
func (g *Gateway) mayAsk(client *Exchange, from *served, method string, params []byte) bool {
	return from.mount.Questions.allow(method) && client.declares(method, params) && from.mount.mayVisit(params) &&
		g.asked.count(hourKey{from.backend.Name(), client.Identity.Key()}, from.mount.QuestionsPerHour)
}

// allow tells whether the operator lets the server ask a question.
func (q Questions) allow(method string) bool {
	switch method {
	case mcp.MethodSampling:
		return q.Sampling
	case mcp.MethodElicit:
		return q.Elicitation
	case mcp.MethodRoots:
		return q.Roots
	}
	return false
}

// mayVisit tells whether a user can be sent where a question wants: over TLS or
// to this machine, and to a host that the operator has named if any is. A
// question without a URL sends nobody anywhere.
func (m *Mount) mayVisit(params []byte) bool {
	if mode, _ := mcp.LookupString(params, "mode"); mode != "url" {
		return true
	}
	text, _ := mcp.LookupString(params, "url")
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	if !strings.EqualFold(u.Scheme, "https") && !(strings.EqualFold(u.Scheme, "http") && loopbackName(host)) {
		return false
	}
	if len(m.URLHosts) == 0 {
		return true
	}
	for _, allowed := range m.URLHosts {
		allowed = strings.ToLower(allowed)
		if below, any := strings.CutPrefix(allowed, "*"); host == allowed || any && strings.HasPrefix(below, ".") && strings.HasSuffix(host, below) {
			return true
		}
	}
	return false
}

// defaultPerHour is how many questions of a server may reach a principal in an
// hour.
const defaultPerHour = 600

// hourKey is who asks whom.
type hourKey struct{ server, principal string }

// hourly counts questions by the hour. The zero value has counted none.
type hourly struct {
	mu   sync.Mutex
	open map[hourKey]hour
}

// hour is one window, from its first question on.
type hour struct {
	since time.Time
	count int
}

// count notes one more and tells whether it is within most; 0 is the default.
func (h *hourly) count(key hourKey, most int) bool {
	if most <= 0 {
		most = defaultPerHour
	}
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.open[key]
	if now.Sub(w.since) >= time.Hour {
		w = hour{since: now}
	}
	if w.count >= most {
		return false
	}
	w.count++
	if h.open == nil {
		h.open = make(map[hourKey]hour)
	}
	h.open[key] = w
	return true
}

// sweep forgets windows that are over.
func (h *hourly) sweep(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, w := range h.open {
		if now.Sub(w.since) >= time.Hour {
			delete(h.open, key)
		}
	}
}
