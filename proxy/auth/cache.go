package auth

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

// tokenKey identifies a token in memory, where tokens themselves are not stored.
type tokenKey [sha256.Size]byte

func keyOf(token string) tokenKey { return sha256.Sum256([]byte(token)) }

// tokenCache caches a value per token until its expiry. When it is full, the least
// recently used entry goes first. The zero tokenCache stores nothing. It is safe for
// concurrent use.
type tokenCache[V any] struct {
	limit int

	mu    sync.Mutex
	byKey map[tokenKey]*list.Element
	order list.List // of cacheEntry[V], most recently used in front
}

type cacheEntry[V any] struct {
	key   tokenKey
	value V
	until time.Time
}

// get returns a cached value that has not expired.
func (c *tokenCache[V]) get(key tokenKey, now time.Time) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none V
	at, ok := c.byKey[key]
	if !ok {
		return none, false
	}
	entry := at.Value.(*cacheEntry[V])
	if !now.Before(entry.until) {
		c.remove(at)
		return none, false
	}
	c.order.MoveToFront(at)
	return entry.value, true
}

// put stores a value, replacing the one of the same token.
func (c *tokenCache[V]) put(key tokenKey, value V, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limit <= 0 {
		return
	}
	if at, ok := c.byKey[key]; ok {
		c.remove(at)
	}
	for c.order.Len() >= c.limit {
		c.remove(c.order.Back())
	}
	if c.byKey == nil {
		c.byKey = map[tokenKey]*list.Element{}
	}
	c.byKey[key] = c.order.PushFront(&cacheEntry[V]{key: key, value: value, until: until})
}

func (c *tokenCache[V]) remove(at *list.Element) {
	delete(c.byKey, c.order.Remove(at).(*cacheEntry[V]).key)
}

// clear removes everything.
func (c *tokenCache[V]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.byKey)
	c.order.Init()
}
