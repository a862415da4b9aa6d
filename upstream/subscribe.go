package upstream

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// subscription is a resource on a connection.
type subscription struct {
	key connKey
	uri string
}

// subscriptions count the subscribers of resources, by connection. The zero value has
// none. It is safe for concurrent use, and calls nobody with its lock held.
type subscriptions struct {
	mu    sync.Mutex
	count map[connKey]map[string]int // subscribers of each URI; never zero
	turns map[subscription]*turn     // of subscriptions that the server is asked about
}

// turn serializes requests about a subscription.
type turn struct {
	taken chan struct{} // capacity 1
	users int           // callers that have it or wait for it; mu of the subscriptions
}

// turn waits until nobody else asks the server about a subscription, at most for the
// timeout. The caller ends its turn with end.
func (s *subscriptions) turn(ctx context.Context, sub subscription, timeout time.Duration) (end func(), err error) {
	s.mu.Lock()
	t := s.turns[sub]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		if s.turns == nil {
			s.turns = make(map[subscription]*turn)
		}
		s.turns[sub] = t
	}
	t.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(s.turns, sub)
		}
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken; leave() }, nil
	case <-timer.C:
		err = errCallTimeout
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	leave()
	return nil, transport.Undelivered(err)
}

// add changes the number of subscribers of a resource and returns it.
func (s *subscriptions) add(sub subscription, more int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	uris := s.count[sub.key]
	n := max(uris[sub.uri]+more, 0)
	switch {
	case n == 0:
		delete(uris, sub.uri)
		if len(uris) == 0 {
			delete(s.count, sub.key)
		}
	case uris == nil:
		if s.count == nil {
			s.count = make(map[connKey]map[string]int)
		}
		s.count[sub.key] = map[string]int{sub.uri: n}
	default:
		uris[sub.uri] = n
	}
	return n
}

// any tells whether a connection has subscriptions.
func (s *subscriptions) any(key connKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.count[key]) > 0
}

// uris returns the resources that are subscribed to on a connection, sorted.
func (s *subscriptions) uris(key connKey) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.count[key]))
}

// keys returns the connections with subscriptions.
func (s *subscriptions) keys() []connKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.count))
}

// drop forgets the subscriptions of matching connections.
func (s *subscriptions) drop(its func(connKey) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.count, func(key connKey, _ map[string]int) bool { return its(key) })
}

// subscribe adds or removes one subscriber of a resource on a connection. Several
// principals may share the connection, so only the first and the last subscriber concern
// the server. Requests about one resource go one after the other, so that the server and
// the count agree. The successor of a connection takes over its subscriptions.
func (s *Server) subscribe(ctx context.Context, conn *Conn, uri string, on bool) (mcp.Answer, error) {
	sub := subscription{conn.owner(), uri}
	end, err := s.subs.turn(ctx, sub, s.spec.Timeouts.Call)
	if err != nil {
		return mcp.Answer{}, err
	}
	defer end()
	done := mcp.Answer{Result: []byte("{}"), Era: conn.era}
	if !on && s.subs.add(sub, -1) > 0 {
		return done, nil
	}
	if on && s.subs.add(sub, 0) > 0 {
		s.subs.add(sub, +1)
		return done, nil
	}
	answer, err := conn.Subscribe(ctx, uri, on)
	if on && err == nil && answer.Fault == nil {
		s.subs.add(sub, +1)
	}
	return answer, err
}
