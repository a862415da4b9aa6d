package auth

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

// tokenKey stands for a token in memory: the tokens themselves are not kept.
type tokenKey [sha256.Size]byte

func keyOf(token string) tokenKey { return sha256.Sum256([]byte(token)) }

// tokenCache remembers a value per token until its time. What was not used for
// longest goes first when it is full. The zero tokenCache keeps nothing. It is
// safe for concurrent use.
type tokenCache[V any] struct {
	limit int

	mu    sync.Mutex
	byKey map[tokenKey]*list.Element
	order list.List // of remembered[V], last used in front
}

type remembered[V any] struct {
	key   tokenKey
	value V
	until time.Time
}

// get returns what is remembered and still holds.
func (c *tokenCache[V]) get(key tokenKey, now time.Time) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none V
	at, ok := c.byKey[key]
	if !ok {
		return none, false
	}
	entry := at.Value.(*remembered[V])
	if !now.Before(entry.until) {
		c.remove(at)
		return none, false
	}
	c.order.MoveToFront(at)
	return entry.value, true
}

// put remembers a value, in place of what was remembered of the token.
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
	c.byKey[key] = c.order.PushFront(&remembered[V]{key: key, value: value, until: until})
}

func (c *tokenCache[V]) remove(at *list.Element) {
	delete(c.byKey, c.order.Remove(at).(*remembered[V]).key)
}

// forget drops everything.
func (c *tokenCache[V]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.byKey)
	c.order.Init()
}
