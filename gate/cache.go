package gate

import (
	"maps"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Key is the cache key of a request: everything but its arguments. It is comparable.
// Two requests have the same key only if they are about the same capability, action
// and endpoint, and the same is known of their callers.
type Key struct {
	caller                                                       string // see [Identity.Fingerprint]
	action                                                       Action
	kind                                                         mcp.Kind
	server, original, exposed, unsuffixed, capabilityID, capsule string
}

// Key returns the request's key. Its identity is not nil.
func (r *Request) Key() Key {
	return Key{
		caller: r.Identity.Fingerprint(), action: r.Action, kind: r.Kind,
		server: r.Server, original: r.Original, exposed: r.Exposed, unsuffixed: r.Unsuffixed,
		capabilityID: r.CapabilityID, capsule: r.Capsule,
	}
}

const (
	// requestTime is how old the cached decision of a request may be when it is used, if
	// nothing ends it before. The proxy trusts what it gets for another second, so a call
	// may be delivered on a decision that is two seconds old.
	requestTime = time.Second
	// viewTime is the same for the items of lists.
	viewTime = 10 * time.Second
	// maxRequests bounds the requests in each of two maps.
	maxRequests = 4096
	// maxViews bounds the items of lists; each list counts as one more.
	maxViews = 1 << 17
)

// cache is the authorization cache of a chain. It holds decisions of single phases, and
// no errors. A nil cache holds nothing. It is safe for concurrent use.
type cache struct {
	mu sync.RWMutex // guards what follows

	// When young is full, it replaces aged.
	young, aged map[Key]*cachedRequest

	lists map[listKey]*cachedList
	views int       // lists and their items
	swept time.Time // when expired lists were last dropped
}

// cachedRequest holds the decisions of the phases on one request. It is not changed once
// cached.
type cachedRequest struct {
	until time.Time
	parts []cachedDecision // by the index of the part
}

// cachedDecision is the decision of one phase under one snapshot of its rules.
type cachedDecision struct {
	snapshot any // see [Part.Snapshot]; nil where nothing is cached
	decision Decision
}

// request returns the cached decisions on a request, nil for none.
func (c *cache) request(k Key) *cachedRequest {
	c.mu.RLock()
	found := c.young[k]
	if found == nil {
		found = c.aged[k]
	}
	c.mu.RUnlock()
	if found == nil || !time.Now().Before(found.until) {
		return nil
	}
	return found
}

// putRequest caches decisions on a request in place of those before.
func (c *cache) putRequest(k Key, made *cachedRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young == nil || len(c.young) >= maxRequests {
		c.aged, c.young = c.young, make(map[Key]*cachedRequest)
	}
	c.young[k] = made
}

// decision returns the cached decision of a part, if it was made under a snapshot.
func (r *cachedRequest) decision(part int, snapshot any) (d Decision, ok bool) {
	if r == nil || snapshot == nil || r.parts[part].snapshot != snapshot {
		return Decision{}, false
	}
	return r.parts[part].decision, true
}

// clone returns a copy for as many parts, which may be changed. It expires when the
// decisions in it do.
func (r *cachedRequest) clone(parts int) *cachedRequest {
	made := &cachedRequest{until: time.Now().Add(requestTime), parts: make([]cachedDecision, parts)}
	if r != nil {
		made.until = r.until
		copy(made.parts, r.parts)
	}
	return made
}

// listKey is the cache key of what one phase lets some callers view at an endpoint.
type listKey struct {
	part           int    // index in the chain
	class, capsule string // see [Part.ViewClass]
}

// cachedList holds the decisions of one phase on the items of lists.
type cachedList struct {
	until time.Time

	mu    sync.RWMutex
	items map[*Capability]Effect
}

// list returns what is cached under a key, nil for nothing.
func (c *cache) list(k listKey) *cachedList {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if found := c.lists[k]; found != nil && time.Now().Before(found.until) {
		return found
	}
	return nil
}

// putList caches decisions on items that were asked for at a time.
func (c *cache) putList(k listKey, items map[*Capability]Effect, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.lists == nil {
		c.lists = make(map[listKey]*cachedList)
	}
	if now.Sub(c.swept) >= viewTime { // so that no item lives on that is in no list any more
		c.swept = now
		for key, l := range c.lists {
			if !now.Before(l.until) {
				c.drop(key)
			}
		}
	}
	l := c.lists[k]
	if l == nil || !now.Before(l.until) {
		c.drop(k)
		l = &cachedList{until: asked.Add(viewTime), items: make(map[*Capability]Effect, len(items))}
		c.lists[k] = l
		c.views++
	}
	c.views += l.add(items)
	for key := range c.lists { // whichever comes first makes room
		if c.views <= maxViews {
			return
		}
		c.drop(key)
	}
}

// drop forgets a list; mu is held.
func (c *cache) drop(k listKey) {
	if l := c.lists[k]; l != nil {
		c.views -= 1 + l.size()
		delete(c.lists, k)
	}
}

func (l *cachedList) size() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.items)
}

// add adds decisions and returns how many are new.
func (l *cachedList) add(items map[*Capability]Effect) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.items)
	maps.Copy(l.items, items)
	return len(l.items) - before
}
