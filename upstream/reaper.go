package upstream

import (
	"errors"
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// idleTime is how long a principal's connection is kept without a call and
// without a subscription.
const idleTime = 10 * time.Minute

// reopening is when a connection that holds subscriptions is opened or listened
// on again after it was lost.
type reopening struct {
	wait backoff.Backoff
	due  time.Time // zero when it is not known to be lost
}

// failed takes account of a failed attempt.
func (r *reopening) failed(err error) {
	r.due = time.Time{}
	if _, ok := errors.AsType[*transport.LoginError](err); ok {
		r.due = time.Now().Add(loginRetry)
	}
}

// left returns how long to wait for the attempt after a loss, zero or less when
// it is due.
func (r *reopening) left(now time.Time) time.Duration {
	if r.due.IsZero() {
		r.due = now.Add(r.wait.Next())
	}
	return r.due.Sub(now)
}

// reapIdle looks after the pool: it ends connections that were idle for idleTime
// and hold no subscriptions, gives up those that were lost, and opens again
// those whose subscriptions wait for them, if there is a free place. It returns
// when to look again at the latest; s.tidy tells of what comes before. It is
// for the goroutine of Run and does not wait.
func (s *Server) reapIdle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	next := idleTime
	for key, sl := range s.pool {
		if !sl.ready() {
			continue
		}
		conn, old := sl.conn, now.Sub(sl.since) > steady
		switch {
		case conn.link.Cause() != nil:
			s.release(key, sl)
			if old {
				delete(s.again, key)
			}
		case len(s.subs[key]) > 0:
			switch {
			case conn.unheard.Load():
				next = min(next, s.listenAgain(key, conn, now))
			case old:
				delete(s.again, key)
			}
		case sl.idle():
			left := time.Unix(0, conn.used.Load()).Add(idleTime).Sub(now)
			if left <= 0 {
				s.release(key, sl)
				continue
			}
			next = min(next, left)
		}
	}
	return min(next, s.openAgain(now))
}

// openAgain opens the connections that subscriptions wait for and returns when
// to look again; mu is held. Nobody else's connection is given up for it.
func (s *Server) openAgain(now time.Time) time.Duration {
	next := idleTime
	for key := range s.again {
		if len(s.subs[key]) == 0 {
			delete(s.again, key)
		}
	}
	if s.main == nil || s.main.link.Cause() != nil {
		return next // the pool is not used without it
	}
	for key := range s.subs {
		call := mcp.Call{Principal: key.principal, Session: key.session}
		era := s.main.era
		if key.era != mcp.EraUnknown {
			era = key.era
		}
		owner := s.keyFor(&call, era)
		owner.withheld = key.withheld
		if era != s.main.era && s.mayTurn(s.main) {
			owner.era = era
		}
		if key == (connKey{}) || s.pool[key] != nil || owner != key {
			continue
		}
		r := s.reopen(key)
		left := r.left(now)
		if left <= 0 {
			r.due = time.Time{}
			if len(s.pool) < s.places() {
				s.take(key)
				continue
			}
			left = r.left(now)
		}
		next = min(next, left)
	}
	return next
}

// listenAgain renews the stream of subscriptions of a connection that is sound
// otherwise and returns when to look again; mu is held.
func (s *Server) listenAgain(key connKey, conn *Conn, now time.Time) time.Duration {
	r := s.reopen(key)
	if left := r.left(now); left > 0 {
		return left
	}
	r.due = time.Time{}
	conn.unheard.Store(false)
	conn.spawn(func() { s.resubscribe(conn.life, conn) })
	return idleTime
}

// reopen returns the account of attempts for a key; mu is held.
func (s *Server) reopen(key connKey) *reopening {
	if s.again[key] == nil {
		s.again[key] = &reopening{wait: s.retries()}
	}
	return s.again[key]
}

// retries is the backoff of attempts to reach the server.
func (s *Server) retries() backoff.Backoff {
	wait := backoff.Backoff{Base: 50 * time.Millisecond, Max: retryMax}
	if s.spec.Command != "" {
		wait.Max = processMax
	}
	return wait
}
