package opa

import (
	"container/list"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// cacheKey is everything that a decision without arguments depends on.
type cacheKey struct {
	generation uint64 // of the policy and its data
	caller     string // see callerKey
	action     gate.Action
	kind       mcp.Capability
	server     string
	original   string
	exposed    string
	plain      string
	capability string
	capsule    string
}

func keyOf(generation uint64, caller string, r *gate.Request) cacheKey {
	return cacheKey{
		generation: generation,
		caller:     caller,
		action:     r.Action,
		kind:       r.Kind,
		server:     r.Server,
		original:   r.Original,
		exposed:    r.Exposed,
		plain:      r.Plain,
		capability: r.CapabilityID,
		capsule:    r.Capsule,
	}
}

// callerKey encodes every field of an identity injectively.
func callerKey(id *gate.Identity) string {
	var b strings.Builder
	part := func(s string) {
		b.WriteString(strconv.Itoa(len(s)))
		b.WriteByte(':')
		b.WriteString(s)
	}
	for _, s := range [...]string{id.Issuer, id.Tenant, id.Subject, id.Persona, id.Plan, id.Credential, strconv.FormatBool(id.Admin)} {
		part(s)
	}
	for _, list := range [...][]string{id.Groups, id.Scopes} {
		b.WriteString(strconv.Itoa(len(list)))
		b.WriteByte('#')
		for _, s := range list {
			part(s)
		}
	}
	return b.String()
}

// cache keeps decisions for a while, the most recently used ones. A nil cache
// keeps none. It is safe for concurrent use.
type cache struct {
	size int
	ttl  time.Duration

	mu      sync.Mutex // guards what follows
	entries map[cacheKey]*list.Element
	order   *list.List // of *cacheEntry, most recently used first
}

type cacheEntry struct {
	key     cacheKey
	verdict verdict
	until   time.Time
}

func newCache(size int, ttl time.Duration) *cache {
	if size < 0 {
		return nil
	}
	return &cache{size: size, ttl: ttl, entries: map[cacheKey]*list.Element{}, order: list.New()}
}

func (c *cache) get(k cacheKey) (verdict, bool) {
	if c == nil {
		return verdict{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e == nil {
		return verdict{}, false
	}
	entry := e.Value.(*cacheEntry)
	if !time.Now().Before(entry.until) {
		c.remove(e)
		return verdict{}, false
	}
	c.order.MoveToFront(e)
	return entry.verdict, true
}

func (c *cache) put(k cacheKey, v verdict) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[k]; e != nil {
		c.remove(e)
	}
	c.entries[k] = c.order.PushFront(&cacheEntry{k, v, time.Now().Add(c.ttl)})
	for c.order.Len() > c.size {
		c.remove(c.order.Back())
	}
}

// clear forgets everything.
func (c *cache) clear() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
	c.order.Init()
}

func (c *cache) remove(e *list.Element) {
	c.order.Remove(e)
	delete(c.entries, e.Value.(*cacheEntry).key)
}
