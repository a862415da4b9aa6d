package upstream

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolgate/toolgate/upstream/transport"
)

// A call is suspended while its client is asked something: the server waits for a person,
// who may never answer. It keeps its connection as long as no other call needs it. After
// [Timeouts.Think] it is given up for a call that finds no connection, so that abandoned
// questions do not block a server.

// errGivenUp ends a suspended call whose connection another call needed.
var errGivenUp = errors.New("its question was open for long and another call needed its connection")

// suspensions are the suspended calls of one connection. The zero value has none.
type suspensions struct {
	mu    sync.Mutex
	calls map[*inFlight]*suspension
}

// suspension is one suspended call.
type suspension struct {
	since time.Time // since the oldest open question
	open  int       // number of open questions
}

// begin notes a question to the client of a call.
func (s *suspensions) begin(f *inFlight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == nil {
		s.calls = make(map[*inFlight]*suspension)
	}
	if s.calls[f] == nil {
		s.calls[f] = &suspension{since: time.Now()}
	}
	s.calls[f].open++
}

// end notes that a question is no longer open.
func (s *suspensions) end(f *inFlight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[f].open--; s.calls[f].open == 0 {
		delete(s.calls, f)
	}
}

// oldest returns the number of suspended calls, and since when the first one is suspended.
func (s *suspensions) oldest() (n int, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if since.IsZero() || c.since.Before(since) {
			since = c.since
		}
	}
	return len(s.calls), since
}

// giveUp ends the suspended calls.
func (s *suspensions) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.calls {
		f.ctx.Cancel(errGivenUp)
	}
}

// suspendedSince returns since when all calls on a connection are suspended; the zero time
// if one is not, or there is none.
func (c *Conn) suspendedSince() time.Time {
	if n, since := c.suspended.oldest(); n > 0 && int64(n) == c.calls.Load() {
		return since
	}
	return time.Time{}
}

// bell wakes those who wait for a change. The zero value is ready for use.
type bell struct {
	mu   sync.Mutex
	rung chan struct{} // closed by the next ring; nil while nobody waits
}

// next returns a channel that the next ring closes.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

// ring wakes those who wait.
func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

// poolWait is the wait of one call for a connection, over all its attempts. The zero value
// has not begun.
type poolWait struct {
	until  time.Time
	gaveUp *Conn     // whose suspended calls were given up and are ending
	ended  time.Time // when they were seen to have ended; zero before
}

// giveUpPause is how long a call waits for the connection of a suspended call that was
// given up for it, before another one is given up: a process may have to end first.
const giveUpPause = 2 * time.Second

// extraWait is how long a call waits for a connection after the time at which suspended
// calls are given up.
const extraWait = 5 * time.Second

// awaitFree waits until a call that found no connection may try again. If a call has been
// suspended for long enough, it is given up for it. The error is errPoolFull after the
// longest wait.
func (p *connPool) awaitFree(ctx context.Context, w *poolWait, key connKey, main *Conn, longest time.Duration, changed <-chan struct{}) error {
	now := time.Now()
	if w.until.IsZero() {
		w.until = now.Add(min(p.spec.Timeouts.Think+extraWait, longest))
	}
	pause := w.until.Sub(now)
	if pause <= 0 || p.spec.maxPooled() == 0 && key.shared() != (connKey{}) {
		return transport.Undelivered(errPoolFull)
	}
	if w.gaveUp != nil && w.gaveUp.suspendedSince().IsZero() {
		if w.ended.IsZero() {
			w.ended = now
		}
		if left := w.ended.Add(giveUpPause).Sub(now); left > 0 {
			pause = min(pause, left)
		} else {
			w.gaveUp, w.ended = nil, time.Time{}
		}
	}
	if w.gaveUp == nil {
		if conn, since := p.yielding(key, main); conn != nil {
			left := since.Add(p.spec.Timeouts.Think).Sub(now)
			if left <= 0 {
				w.gaveUp = conn
				conn.suspended.giveUp()
				p.log.Info("a call whose client did not answer a question is given up for another call", "suspended", now.Sub(since).Round(time.Second).String())
			} else {
				pause = min(pause, left)
			}
		}
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return transport.Undelivered(context.Cause(ctx))
	}
	return nil
}

// shared returns the key of the first connection of the owner.
func (k connKey) shared() connKey {
	k.spare = 0
	return k
}

// yielding returns the connection whose suspended calls end first for a call that found
// none, and since when they are suspended; nil if there is none.
func (p *connPool) yielding(key connKey, main *Conn) (*Conn, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var conn *Conn
	var since time.Time
	held, keys := p.held()
	if i := givesUp(held, key.principal, p.spec.maxPooled()); i >= 0 {
		conn, since = p.slots[keys[i]].conn, held[i].suspended
	}
	if key.shared() != (connKey{}) {
		return conn, since // it cannot use the own connection
	}
	if own := main.suspendedSince(); !own.IsZero() && (conn == nil || own.Before(since)) {
		return main, own
	}
	return conn, since
}

// thinkTime is how long a call is suspended before it is given up for others. The
// connections share one minute, so that the only one is not taken from a person who is
// about to answer.
func thinkTime(set time.Duration, conns int) time.Duration {
	return cmp.Or(set, max(10*time.Second, time.Minute/time.Duration(conns)))
}
