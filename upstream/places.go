package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// slot is one place of the pool: a connection, or one being opened.
type slot struct {
	opened chan struct{} // closed when conn or err is set
	conn   *Conn
	err    error
	since  time.Time // when it was opened

	waiting int // callers that wait for it or are about to begin; mu of the server
}

// ready tells whether the slot has its connection.
func (sl *slot) ready() bool {
	select {
	case <-sl.opened:
		return sl.conn != nil
	default:
		return false
	}
}

// idle tells whether nobody uses the connection or is about to.
func (sl *slot) idle() bool {
	return sl.ready() && sl.waiting == 0 && sl.conn.calls.Load() == 0
}

// place is what admit and yields know of a connection.
type place struct {
	principal string
	idle      bool
	used      int64     // unix nanoseconds of its last use
	suspended time.Time // since when all its calls are; zero while they are not
}

// admit decides whether a principal may have one more of most places, of which
// some are held. victim is the held one that is given up for it, -1 when a
// place is free. Only idle connections are given up:
//
//   - While a place is free, everyone may have it.
//   - A principal's share is max(1, most / principals), where the principals
//     are those that hold a place and the one that wants one. Who holds its
//     share or more gives up one of its own for another.
//   - Who holds less takes one from the principal that holds the most among
//     those with an idle one. Who holds something itself takes only from
//     principals that are left with no less than it has then, and otherwise
//     gives up one of its own: so nothing is passed to and fro, and nobody
//     loses its only connection but to somebody who has none.
//   - Of several, the least recently used is given up.
func admit(held []place, principal string, most int) (victim int, ok bool) {
	if len(held) < most {
		return -1, true
	}
	holds := make(map[string]int)
	for i := range held {
		holds[held[i].principal]++
	}
	own, principals := holds[principal], len(holds)
	if own == 0 {
		principals++
	}
	share := max(1, most/principals)

	// rank orders the victims: more is better, zero is none.
	rank := func(p *place) int {
		n := holds[p.principal]
		switch {
		case !p.idle:
			return 0
		case p.principal == principal:
			return 1 // better than nothing
		case own >= share, own > 0 && n <= own+1:
			return 0
		}
		return 1 + n
	}
	victim, best := -1, 0
	for i := range held {
		p := &held[i]
		if r := rank(p); r > best || r > 0 && r == best && p.used < held[victim].used {
			victim, best = i, r
		}
	}
	return victim, victim >= 0
}

var errPoolFull = errors.New("all its connections are in use")

// pooled returns the connection of a principal or session, opening it first
// when there is none. Callers that come together wait for one opening.
func (s *Server) pooled(ctx context.Context, key connKey) (*Conn, error) {
	s.mu.Lock()
	sl := s.pool[key]
	if sl != nil && sl.ready() && sl.conn.link.Cause() != nil {
		s.release(key, sl)
		sl = nil
	}
	if sl == nil {
		if s.stopped || !s.makeRoom(key.principal) {
			err := errPoolFull
			if s.stopped {
				err = transport.ErrClosed
			}
			s.mu.Unlock()
			return nil, transport.Undelivered(err)
		}
		sl = s.take(key)
	}
	sl.waiting++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		sl.waiting--
		s.mu.Unlock()
		s.freed.ring()
	}()
	select {
	case <-sl.opened:
		if sl.err == nil {
			sl.conn.begin()
		}
		return sl.conn, sl.err
	case <-ctx.Done():
		return nil, transport.Undelivered(context.Cause(ctx))
	}
}

// makeRoom gives up a connection if one more for the principal does not fit
// beside those that there are, and tells whether it fits; mu is held.
func (s *Server) makeRoom(principal string) bool {
	held, keys := s.held()
	victim, ok := admit(held, principal, s.places())
	if victim >= 0 {
		s.release(keys[victim], s.pool[keys[victim]])
	}
	return ok
}

// held returns the places that are taken, and whose; mu is held.
func (s *Server) held() (held []place, keys []connKey) {
	for key, sl := range s.pool {
		if sl.ready() && sl.conn.link.Cause() != nil {
			s.release(key, sl)
			continue
		}
		p := place{principal: key.principal, idle: sl.idle()}
		switch {
		case p.idle:
			p.used = sl.conn.used.Load()
		case sl.ready() && sl.waiting == 0:
			p.suspended = sl.conn.suspendedSince()
		}
		held, keys = append(held, p), append(keys, key)
	}
	return held, keys
}

// places is how many connections there may be beside the gateway's own.
func (s *Server) places() int { return s.spec.Limits.Conns - 1 }

// take occupies a place and begins to open its connection; mu is held.
func (s *Server) take(key connKey) *slot {
	sl := &slot{opened: make(chan struct{})}
	s.pool[key] = sl
	s.wg.Go(func() { s.fill(key, sl) })
	return sl
}

// fill opens the connection of a slot and takes up its subscriptions again.
func (s *Server) fill(key connKey, sl *slot) {
	s.mu.Lock()
	life := s.life
	s.mu.Unlock()
	var conn *Conn
	err := s.awaitEnds(life)
	if err == nil {
		conn, err = s.open(life, key)
		err = s.learnEras(life, key, err)
	}
	s.mu.Lock()
	if r := s.again[key]; r != nil && err != nil {
		r.failed(err)
		s.log.Debug("connection of subscriptions not opened again", "err", err)
	}
	if err != nil {
		err = transport.Undelivered(err)
	}
	if conn != nil && !s.stopped && s.pool[key] != sl { // its session ended meanwhile
		unwanted := conn
		s.wg.Go(func() { s.retire(unwanted) })
		conn, err = nil, transport.Undelivered(transport.ErrClosed)
	}
	promoted := conn != nil && s.pool[key] == sl && s.promote(key, conn)
	sl.conn, sl.err, sl.since = conn, err, time.Now()
	if conn != nil && conn.plain() && s.spec.Command != "" && s.plain.main != s.main && !s.plain.busy {
		signal(s.refetch) // as it is there, its list is read too
	}
	if err != nil && s.pool[key] == sl {
		delete(s.pool, key)
	}
	s.mu.Unlock()
	close(sl.opened)
	s.freed.ring()
	signal(s.tidy)
	if err == nil {
		s.resubscribe(life, conn)
	}
	if err == nil && key == (connKey{era: key.era}) && key.era != mcp.EraUnknown && !promoted {
		s.readOther(life, conn)
	}
}

// awaitEnds waits until the processes that made room have ended, so that there
// are no more of them than places, but for those whose session ended during a
// call. A process is ended within closeTime.
func (s *Server) awaitEnds(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.spec.Timeouts.Start,
		errors.New("the process whose place it takes does not end"))
	defer cancel()
	for {
		s.mu.Lock()
		free, ended := len(s.pool)+s.ending <= s.places(), s.ended
		s.mu.Unlock()
		if free {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// release takes a connection out of the pool and closes it in the background;
// mu is held.
func (s *Server) release(key connKey, sl *slot) {
	delete(s.pool, key)
	s.freed.ring()
	if len(s.subs[key]) > 0 {
		signal(s.tidy) // it is opened again when there is a place
	}
	conn := sl.conn
	if conn == nil {
		return
	}
	if conn.shared && conn.calls.Load() == 0 {
		// It counts from now on, without a moment between.
		s.ending++
		s.wg.Go(func() { closeConn(conn); s.hasEnded() })
		return
	}
	s.wg.Go(func() { s.retire(conn) })
}

// hasEnded frees the place of a process that was ended.
func (s *Server) hasEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending--
	close(s.ended)
	s.ended = make(chan struct{})
}
