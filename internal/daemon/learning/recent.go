package learning

import (
	"slices"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/store"
)

// The bounds of searches that wait for a call.
const (
	maxPrincipals = 1024             // with such searches
	maxSearches   = 4                // of one principal
	maxShown      = 32               // names of one search
	maxAge        = 10 * time.Minute // from the search to the call
)

func principalOf(e *audit.Entry) string {
	return gate.Principal{Issuer: e.Principal.Issuer, Tenant: e.Principal.Tenant, Subject: e.Principal.Subject}.Key()
}

// search is a search that waits for calls of what it found.
type search struct {
	tenant, query string
	shown         []string // in the order of the answer; empty for one that was called
	shadow        []string // in the order of a model that is not in force
	shadowed      bool
	at            time.Time
}

// recent are the latest searches of each principal. It belongs to one goroutine.
type recent map[string][]search

// add keeps a search. The principal that has searched least lately goes first.
func (r recent) add(principal string, s search) {
	list := append(r[principal], s)
	r[principal] = list[max(0, len(list)-maxSearches):]
	if len(r) <= maxPrincipals {
		return
	}
	oldest := principal
	for who, list := range r {
		if list[len(list)-1].at.Before(r[oldest][len(r[oldest])-1].at) {
			oldest = who
		}
	}
	delete(r, oldest)
}

// pair returns the pair that a call makes with the latest search that showed the tool. A
// search makes one pair with a tool.
func (r recent) pair(c called, at time.Time) (p store.SearchPair, ok bool) {
	list := r[c.principal]
	for i := len(list) - 1; i >= 0; i-- {
		s := &list[i]
		place := slices.Index(s.shown, c.tool)
		if place < 0 || at.Sub(s.at) > maxAge {
			continue
		}
		s.shown[place] = ""
		p = store.SearchPair{Tenant: s.tenant, Caller: c.principal, Server: c.server, Tool: c.tool, Query: s.query, At: at, Searched: s.at, Place: place + 1}
		if s.shadowed {
			p.Shadow = slices.Index(s.shadow, c.tool) + 1
			if p.Shadow == 0 {
				p.Shadow = -1
			}
		}
		return p, true
	}
	return p, false
}

// forget drops the searches of a tenant up to a time.
func (r recent) forget(tenant string, until time.Time) {
	for who, list := range r {
		list = slices.DeleteFunc(list, func(s search) bool { return s.tenant == tenant && !s.at.After(until) })
		if r[who] = list; len(list) == 0 {
			delete(r, who)
		}
	}
}

// expire forgets searches that no call can follow any more.
func (r recent) expire(now time.Time) {
	for who, list := range r {
		list = slices.DeleteFunc(list, func(s search) bool { return now.Sub(s.at) > maxAge })
		if r[who] = list; len(list) == 0 {
			delete(r, who)
		}
	}
}
