package opa

import (
	"container/list"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// cacheKey is everything that the value of a rule depends on that does not look at the
// arguments of a call.
type cacheKey struct {
	generation uint64 // of the policy and its data
	request    gate.Key
}

func keyOf(generation uint64, r *gate.Request) cacheKey {
	return cacheKey{generation, r.Key()}
}

// valueCache holds values of rules for a while, the most recently used ones. A nil
// cache holds nothing. It is safe for concurrent use.
type valueCache struct {
	size int
	ttl  time.Duration

	mu      sync.Mutex // guards what follows
	entries map[cacheKey]*list.Element
	order   *list.List // of *cacheEntry, most recently used first
}

type cacheEntry struct {
	key    cacheKey
	values ruleValues
	until  time.Time
}

// newValueCache returns a cache for as many calls; nil for a negative size.
func newValueCache(size int, ttl time.Duration) *valueCache {
	if size < 0 {
		return nil
	}
	return &valueCache{size: size, ttl: ttl, entries: map[cacheKey]*list.Element{}, order: list.New()}
}

// get returns the cached values; nil for none.
func (c *valueCache) get(k cacheKey) ruleValues {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e == nil {
		return nil
	}
	entry := e.Value.(*cacheEntry)
	if !time.Now().Before(entry.until) {
		c.remove(e)
		return nil
	}
	c.order.MoveToFront(e)
	return entry.values
}

func (c *valueCache) put(k cacheKey, values ruleValues) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[k]; e != nil {
		c.remove(e)
	}
	c.entries[k] = c.order.PushFront(&cacheEntry{k, values, time.Now().Add(c.ttl)})
	for c.order.Len() > c.size {
		c.remove(c.order.Back())
	}
}

// clear forgets everything.
func (c *valueCache) clear() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
	c.order.Init()
}

func (c *valueCache) remove(e *list.Element) {
	c.order.Remove(e)
	delete(c.entries, e.Value.(*cacheEntry).key)
}
