package upstream

import (
	"context"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// subscription is a resource on the connection of somebody.
type subscription struct {
	key connKey
	uri string
}

// turn is who may ask the server about a subscription.
type turn struct {
	taken chan struct{} // capacity 1
	users int           // who has it or waits for it; mu of the server
}

// turn waits until nobody else asks the server about a subscription, as long as
// the context and the timeout of a call last. The caller gives the turn back by
// end.
func (s *Server) turn(ctx context.Context, sub subscription) (end func(), err error) {
	s.mu.Lock()
	t := s.turns[sub]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
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
	timer := time.NewTimer(s.spec.Timeouts.Call)
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

// subscribe adds or takes off one subscriber of a resource on a connection.
// Several principals may share it, so that only the first and the last one
// concern the server; what is asked about one resource is asked one after the
// other, so that the server and the count agree. What is subscribed is kept for
// the connection's successor.
func (s *Server) subscribe(ctx context.Context, conn *Conn, uri string, on bool) (mcp.Answer, error) {
	key := conn.owner()
	end, err := s.turn(ctx, subscription{key, uri})
	if err != nil {
		return mcp.Answer{}, err
	}
	defer end()
	done := mcp.Answer{Result: []byte("{}"), Era: conn.era}
	if !on && s.count(key, uri, -1) > 0 {
		return done, nil
	}
	if on && s.count(key, uri, 0) > 0 {
		s.count(key, uri, +1)
		return done, nil
	}
	answer, err := conn.Subscribe(ctx, uri, on)
	if on && err == nil && answer.Fault == nil {
		s.count(key, uri, +1)
	}
	return answer, err
}

// count adds to the number of subscribers of a resource and returns it.
func (s *Server) count(key connKey, uri string, add int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := max(s.subs[key][uri]+add, 0)
	switch {
	case n == 0:
		delete(s.subs[key], uri)
		if len(s.subs[key]) == 0 {
			delete(s.subs, key)
		}
	case s.subs[key] == nil:
		s.subs[key] = map[string]int{uri: n}
	default:
		s.subs[key][uri] = n
	}
	return n
}
