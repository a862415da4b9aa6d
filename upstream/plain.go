package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// PlainList says where it is found out what a legacy server lists to a client
// that can be asked nothing.
type PlainList string

// The ways. The zero PlainList is PlainNever.
const (
	// PlainNever shows everyone what clients see that can be asked.
	PlainNever PlainList = ""
	// PlainAuto finds out over HTTP, and from processes that run anyway.
	PlainAuto PlainList = "auto"
	// PlainAlways starts a process for it where there is none, and shows nothing
	// before it has been read.
	PlainAlways PlainList = "always"
)

const (
	// plainFirst is how long the first listing of all waits for the plain one,
	// where the operator does not want it always.
	plainFirst = 300 * time.Millisecond
	// plainAge is how long a plain listing that is the same as the full one is
	// trusted while nothing changes.
	plainAge = time.Hour
	// plainStrikes is how often in a row the server may give up the gateway's
	// own session after another one was opened for the plain list.
	plainStrikes = 2
)

// plainState is what is known of the plain list; mu of the server guards it.
type plainState struct {
	listing   *mcp.Listing        // nil while it is the same as the full one, or not known
	announced map[mcp.Kind]uint64 // changes that the server has announced where it was told nothing

	main   *Conn        // on whose full listing the last look was
	of     *mcp.Listing // that full listing
	at     time.Time    // when
	due    bool         // something was announced, or may be read now
	busy   bool         // somebody looks,
	looks  *Conn        // beside this connection
	struck int          // see plainStrikes
}

// plainKey is whose the connection is on which the plain list is read: the
// gateway's own, told nothing.
func (s *Server) plainKey() connKey { return connKey{withheld: s.spec.Questions} }

// plain tells whether the server was told on the connection that it may ask
// nothing, although it may elsewhere.
func (c *Conn) plain() bool {
	return c.era == mcp.Legacy && c.key.withheld != (Questions{}) && c.key.withheld == c.spec.Questions
}

// hasPlain tells whether there can be a plain list that is not the full one; mu
// is held. A modern server's lists vary by authorization alone (2026-07-28
// server/tools, Listing Tools).
func (s *Server) hasPlain(era mcp.Era) bool {
	nothingDeclared := s.spec.Questions == (Questions{}) || s.spec.Isolation == IsolateShared && s.spec.Local == ""
	return era == mcp.Legacy && s.spec.Plain != PlainNever && !nothingDeclared &&
		s.places() > 0 && s.plain.struck < plainStrikes
}

// plainDue tells whether the plain list is to be read, now that the full one has
// been; moved tells that this is another than it was. mu is held.
func (s *Server) plainDue(main *Conn, moved bool) bool {
	p := &s.plain
	if p.busy || !s.hasPlain(main.era) {
		return false
	}
	news := p.due || p.main != main || moved
	if s.spec.Command == "" {
		return news || p.listing != nil || time.Since(p.at) > plainAge
	}
	return news && (s.spec.Plain == PlainAlways || p.listing != nil || s.plainConn() != nil)
}

// plainConn returns a connection that there is and on which the server was told
// nothing, nil when there is none; mu is held.
func (s *Server) plainConn() *Conn {
	for _, sl := range s.pool {
		if sl.ready() && sl.conn.plain() && sl.conn.link.Cause() == nil {
			return sl.conn
		}
	}
	return nil
}

// publishBoth publishes the full listing and reads the plain one where that is
// due, beside everything else. The first listing of all waits for it a moment.
func (s *Server) publishBoth(ctx context.Context, main *Conn, full *mcp.Listing, state mcp.State, reason string) {
	s.mu.Lock()
	of, first := s.plain.of, s.listing == nil
	s.mu.Unlock()
	moved := of == nil || !of.Offers(full)
	if !first {
		s.publish(full, state, reason)
	}
	done := s.lookPlain(main, full, moved)
	if !first {
		return
	}
	wait := plainFirst
	if s.spec.Plain == PlainAlways {
		wait = s.spec.Timeouts.Start // as long as the process may take, which is asked for
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-main.link.Done():
	case <-ctx.Done():
	}
	s.publish(full, state, reason)
}

// lookPlain begins to read the plain list where that is due. The channel is
// closed when it is over.
func (s *Server) lookPlain(main *Conn, full *mcp.Listing, moved bool) <-chan struct{} {
	done := make(chan struct{})
	s.mu.Lock()
	if !s.hasPlain(main.era) {
		s.plain.listing = nil
	}
	due := s.plainDue(main, moved)
	switch {
	case due:
		s.plain.busy, s.plain.due, s.plain.looks = true, false, main
	case s.plain.busy && s.plain.looks != main:
		s.plain.due = true // for this one, once who looks beside its predecessor has ended
	}
	s.mu.Unlock()
	look := func() {
		defer close(done)
		s.readPlain(main.life, main, full)
	}
	if !due || !main.spawn(look) {
		close(done)
		if due { // its successor looks
			s.mu.Lock()
			s.plain.busy = false
			s.mu.Unlock()
		}
	}
	return done
}

// readPlain reads the plain list and keeps it where it differs from the full one.
// What was known stays where it cannot be read.
func (s *Server) readPlain(ctx context.Context, main *Conn, full *mcp.Listing) {
	s.mu.Lock()
	announced := maps.Clone(s.plain.announced)
	s.mu.Unlock()
	conn, opened, err := s.openPlain(ctx)
	var listing *mcp.Listing
	anew := false
	if err == nil {
		listing, _, err = conn.fetch(ctx)
		conn.finish()
		if err == nil && len(listing.Unread) > 0 { // it cannot be compared
			err = fmt.Errorf("%s cannot be read", listing.Unread[0].ListMethod())
		}
		if errors.Is(err, transport.ErrSessionLost) {
			s.lose(conn, err)
			anew = !opened // the next look opens another
		}
	}
	if opened && s.spec.Command == "" {
		err = errors.Join(err, s.outlived(ctx, main))
	}
	if err != nil {
		s.log.Debug("the list for clients that can be asked nothing is not read", "err", err)
	} else {
		listing.Announced = announced
		s.adoptPlain(main, full, listing)
	}
	s.mu.Lock()
	if sl := (*slot)(nil); opened && conn != nil && s.plain.listing == nil {
		if sl = s.pool[conn.key]; sl != nil && sl.conn == conn && sl.idle() {
			s.release(conn.key, sl)
		}
	}
	s.plain.busy = false
	s.plain.due = s.plain.due || anew
	again := s.plain.due
	s.mu.Unlock()
	if again {
		signal(s.refetch)
	}
}

// openPlain returns a connection to read the plain list on, which counts a call
// until finish; opened tells that there was none before.
func (s *Server) openPlain(ctx context.Context) (_ *Conn, opened bool, err error) {
	s.mu.Lock()
	if conn := s.plainConn(); conn != nil {
		conn.begin()
		s.mu.Unlock()
		return conn, false, nil
	}
	s.mu.Unlock()
	conn, err := s.pooled(ctx, s.plainKey())
	return conn, true, err
}

// outlived asks whether the gateway's own session has outlived the beginning of
// another one: some servers have one at a time. It returns why not.
func (s *Server) outlived(ctx context.Context, main *Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reprobe, errCallTimeout)
	defer cancel()
	err := main.probe(ctx)
	if cause := main.link.Cause(); cause != nil {
		err = cause // something else may have found it out
	}
	lost := errors.Is(err, transport.ErrSessionLost)
	s.mu.Lock()
	switch {
	case lost:
		s.plain.struck++
	case err == nil:
		s.plain.struck = 0
	}
	over := lost && s.plain.struck == plainStrikes
	s.mu.Unlock()
	if !lost {
		return nil
	}
	if over {
		s.log.Warn("the server ends a session when another begins; everyone is shown what it lists to clients that can be asked")
	}
	s.lose(main, err)
	return err
}

// adoptPlain keeps the plain listing where it differs from the full one, and
// publishes both.
func (s *Server) adoptPlain(main *Conn, full, listing *mcp.Listing) {
	s.mu.Lock()
	before, seen := s.plain.listing, s.listing
	s.mu.Unlock()
	if seen != nil {
		full = seen // else it is about to be published
	}
	switch {
	case full.Offers(listing):
		listing = nil
	case before != nil && !before.Stale && before.Offers(listing) && maps.Equal(before.Announced, listing.Announced):
		listing = before
	}
	s.mu.Lock()
	p := &s.plain
	p.main, p.of, p.at, p.listing = main, full, time.Now(), listing
	switch now := s.listing; {
	case now == nil || now == seen && now.Plain == listing:
		s.mu.Unlock()
		return
	case now != seen && now != full:
		p.due = true // it was compared with one that is no more
	}
	next := *s.listing
	next.Plain = listing
	s.listing, p.of = &next, &next
	s.mu.Unlock()
	s.opts.Sink.Changed(s.spec.Key)
}

// announce counts a change that the server has announced on a connection; mu is
// held. One of where it was told nothing is news for everyone: modern clients that
// declare nothing are shown the full lists and are served there.
func (s *Server) announce(conn *Conn, kind mcp.Kind) {
	s.announced[kind]++
	if s.plain.listing == nil || !conn.plain() {
		return
	}
	if s.plain.announced == nil {
		s.plain.announced = make(map[mcp.Kind]uint64)
	}
	s.plain.announced[kind]++
}

// fullOnly tells whether a call is of something that the server lists only
// where it was told that it may ask.
func (s *Server) fullOnly(call *mcp.Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.listing
	return l != nil && l.Plain != nil && l.Find(call.Kind, call.Key) != nil && l.Plain.Find(call.Kind, call.Key) == nil
}

// knowPlain takes over the plain part of a last good listing; before Run.
func (s *Server) knowPlain(known *mcp.Listing) {
	if known.Plain == nil {
		return
	}
	plain := *known.Plain
	plain.Stale = true
	if !s.hasPlain(known.Era) {
		known.Plain = nil
		return
	}
	known.Plain, s.plain.listing = &plain, &plain
}

// keepsPlain tells whether a session is kept to hear of the plain list.
func (s *Server) keepsPlain() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plain.listing != nil && s.spec.Command == ""
}
