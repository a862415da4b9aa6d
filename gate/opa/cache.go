package opa

import (
	"container/list"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// cacheKey is everything that a decision without arguments depends on.
type cacheKey struct {
	generation uint64 // of the policy and its data
	request    gate.Key
}

func keyOf(generation uint64, r *gate.Request) cacheKey {
	return cacheKey{generation, r.Key()}
}

// cache keeps what was found for a while, the most recently used of it. A nil
// cache keeps nothing. It is safe for concurrent use.
type cache[V any] struct {
	size int
	ttl  time.Duration

	mu      sync.Mutex // guards what follows
	entries map[cacheKey]*list.Element
	order   *list.List // of *cacheEntry[V], most recently used first
}

type cacheEntry[V any] struct {
	key   cacheKey
	value V
	until time.Time
}

func newCache[V any](size int, ttl time.Duration) *cache[V] {
	if size < 0 {
		return nil
	}
	return &cache[V]{size: size, ttl: ttl, entries: map[cacheKey]*list.Element{}, order: list.New()}
}

func (c *cache[V]) get(k cacheKey) (found V, ok bool) {
	if c == nil {
		return found, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e == nil {
		return found, false
	}
	entry := e.Value.(*cacheEntry[V])
	if !time.Now().Before(entry.until) {
		c.remove(e)
		return found, false
	}
	c.order.MoveToFront(e)
	return entry.value, true
}

func (c *cache[V]) put(k cacheKey, v V) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[k]; e != nil {
		c.remove(e)
	}
	c.entries[k] = c.order.PushFront(&cacheEntry[V]{k, v, time.Now().Add(c.ttl)})
	for c.order.Len() > c.size {
		c.remove(c.order.Back())
	}
}

// clear forgets everything.
func (c *cache[V]) clear() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
	c.order.Init()
}

func (c *cache[V]) remove(e *list.Element) {
	c.order.Remove(e)
	delete(c.entries, e.Value.(*cacheEntry[V]).key)
}
