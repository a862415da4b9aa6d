package upstream

import (
	"errors"
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// idleTime is how long a connection of a principal is kept without calls and
// subscriptions.
const idleTime = 10 * time.Minute

// reopening schedules when a lost connection or stream with subscriptions is opened again.
type reopening struct {
	wait backoff.Backoff
	due  time.Time // zero while no loss is known
}

// failed records a failed attempt.
func (r *reopening) failed(err error) {
	r.due = time.Time{}
	if _, ok := errors.AsType[*transport.LoginError](err); ok {
		r.due = time.Now().Add(loginRetry)
	}
}

// left returns the time until the next attempt; zero or less means now.
func (r *reopening) left(now time.Time) time.Duration {
	if r.due.IsZero() {
		r.due = now.Add(r.wait.Next())
	}
	return r.due.Sub(now)
}

// reapIdle closes connections that were idle for idleTime and hold no subscriptions, and
// drops lost ones. It opens connections again that subscriptions wait for, if there is
// room. It returns when to run again at the latest; tidy tells of earlier work. The
// goroutine of Run calls it. It does not block.
func (p *connPool) reapIdle() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	next := idleTime
	for key, sl := range p.slots {
		if !sl.ready() {
			continue
		}
		conn, old := sl.conn, now.Sub(sl.since) > steady
		switch {
		case conn.link.Cause() != nil:
			p.release(key, sl)
			if old {
				delete(p.again, key)
			}
		case p.subs.any(key):
			switch {
			case conn.streamEnded.Load():
				next = min(next, p.listenAgain(key, conn, now))
			case old:
				delete(p.again, key)
			}
		case sl.idle():
			left := time.Unix(0, conn.used.Load()).Add(idleTime).Sub(now)
			if left <= 0 {
				p.release(key, sl)
				continue
			}
			next = min(next, left)
		}
	}
	return min(next, p.openAgain(now))
}

// openAgain opens the connections that subscriptions wait for and returns when to run
// again; mu is held. It closes no connection of others to make room.
func (p *connPool) openAgain(now time.Time) time.Duration {
	next := idleTime
	for key := range p.again {
		if !p.subs.any(key) {
			delete(p.again, key)
		}
	}
	if p.own == nil || p.own.link.Cause() != nil {
		return next // without it the pool is not used
	}
	for _, key := range p.subs.keys() {
		call := mcp.Call{Principal: key.principal, Session: key.session}
		era := p.own.era
		if key.era != mcp.EraUnknown {
			era = key.era
		}
		owner := p.spec.keyFor(&call, era)
		owner.withheld = key.withheld
		if era != p.own.era && p.catalog.mayUseOtherEra(p.own) {
			owner.era = era
		}
		if key == (connKey{}) || p.slots[key] != nil || owner != key {
			continue
		}
		r := p.reopen(key)
		left := r.left(now)
		if left <= 0 {
			r.due = time.Time{}
			if len(p.slots) < p.spec.maxPooled() {
				p.take(key)
				continue
			}
			left = r.left(now)
		}
		next = min(next, left)
	}
	return next
}

// listenAgain renews the subscription stream of a connection that is otherwise good and
// returns when to run again; mu is held.
func (p *connPool) listenAgain(key connKey, conn *Conn, now time.Time) time.Duration {
	r := p.reopen(key)
	if left := r.left(now); left > 0 {
		return left
	}
	r.due = time.Time{}
	conn.streamEnded.Store(false)
	conn.spawn(func() { p.of.resubscribe(conn.life, conn) })
	return idleTime
}

// reopen returns the schedule for a key; mu is held.
func (p *connPool) reopen(key connKey) *reopening {
	if p.again[key] == nil {
		p.again[key] = &reopening{wait: p.spec.retries()}
	}
	return p.again[key]
}
