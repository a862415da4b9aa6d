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

// withoutCapabilities is what is known of the lists that a legacy server shows to
// clients without capabilities; mu of the catalog guards it.
type withoutCapabilities struct {
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

// declaresNothing tells whether the server was told on the connection that it may ask
// nothing, although it may elsewhere.
func (c *Conn) declaresNothing() bool {
	return c.era == mcp.Legacy && c.key.withheld != (Questions{}) && c.key.withheld == c.spec.Questions
}

// varies tells whether the lists for clients without capabilities may differ from the
// full ones; mu is held. A modern server's lists vary by authorization alone (2026-07-28
// server/tools, Listing Tools).
func (c *catalog) varies(era mcp.Era) bool {
	nothingDeclared := c.spec.Questions == (Questions{}) || c.spec.Isolation == IsolateShared && c.spec.Local == ""
	return era == mcp.Legacy && c.spec.Plain != PlainNever && !nothingDeclared &&
		c.spec.maxPooled() > 0 && c.without.struck < plainStrikes
}

// withoutDue tells whether the lists for clients without capabilities are to be read,
// now that the full ones have been; moved tells that these are others than they were,
// open that there is a connection to read them on. mu is held.
func (c *catalog) withoutDue(main *Conn, moved, open bool) bool {
	w := &c.without
	if w.busy || !c.varies(main.era) {
		return false
	}
	news := w.due || w.main != main || moved
	if c.spec.Command == "" {
		return news || w.listing != nil || time.Since(w.at) > plainAge
	}
	return news && (c.spec.Plain == PlainAlways || w.listing != nil || open)
}

// beginWithout begins to read the lists for clients without capabilities beside the
// gateway's own connection, and tells whether they are to be read.
func (c *catalog) beginWithout(main *Conn, moved, open bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.varies(main.era) {
		c.without.listing = nil
	}
	due := c.withoutDue(main, moved, open)
	switch {
	case due:
		c.without.busy, c.without.due, c.without.looks = true, false, main
	case c.without.busy && c.without.looks != main:
		c.without.due = true // for this one, once who looks beside its predecessor has ended
	}
	return due
}

// endWithout ends that, and tells whether they are to be read again.
func (c *catalog) endWithout(again bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.without.busy = false
	c.without.due = c.without.due || again
	return c.without.due
}

// withoutState returns the lists for clients without capabilities, nil where there are
// none of their own, and the changes of them that were announced.
func (c *catalog) withoutState() (*mcp.Listing, map[mcp.Kind]uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.without.listing, maps.Clone(c.without.announced)
}

// waitsFor tells whether nobody has read the lists for clients without capabilities
// beside the gateway's own connection yet.
func (c *catalog) waitsFor(main *Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.without.main != main && !c.without.busy
}

// lastRead returns the full listing beside which those for clients without capabilities
// were read last, nil for none, and whether nothing was published before.
func (c *catalog) lastRead() (of *mcp.Listing, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.without.of, c.listing == nil
}

// strike counts that the server gave the gateway's own session up when another one
// began, and tells whether that is once too often. One that it kept ends the count.
func (c *catalog) strike(lost bool) (over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !lost {
		c.without.struck = 0
		return false
	}
	c.without.struck++
	return c.without.struck == plainStrikes
}

// adoptWithout keeps the lists for clients without capabilities where they differ from
// the full ones, and publishes both.
func (c *catalog) adoptWithout(main *Conn, full, listing *mcp.Listing) {
	c.mu.Lock()
	before, seen := c.without.listing, c.listing
	c.mu.Unlock()
	if seen != nil {
		full = seen // else it is about to be published
	}
	switch {
	case full.Offers(listing):
		listing = nil
	case before != nil && !before.Stale && before.Offers(listing) && maps.Equal(before.Announced, listing.Announced):
		listing = before
	}
	c.mu.Lock()
	w := &c.without
	w.main, w.of, w.at, w.listing = main, full, time.Now(), listing
	switch now := c.listing; {
	case now == nil || now == seen && now.Plain == listing:
		c.mu.Unlock()
		return
	case now != seen && now != full:
		w.due = true // it was compared with one that is no more
	}
	next := *c.listing
	next.Plain = listing
	c.listing, w.of = &next, &next
	c.mu.Unlock()
	c.sink.Changed(c.spec.Key)
}

// fullOnly tells whether a call is of something that the server lists only
// where it was told that it may ask.
func (c *catalog) fullOnly(call *mcp.Call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.listing
	return l != nil && l.Plain != nil && l.Find(call.Kind, call.Key) != nil && l.Plain.Find(call.Kind, call.Key) == nil
}

// restoreWithout takes over what a last good listing says of clients without
// capabilities; mu is held.
func (c *catalog) restoreWithout(known *mcp.Listing) {
	if known.Plain == nil {
		return
	}
	plain := *known.Plain
	plain.Stale = true
	if !c.varies(known.Era) {
		known.Plain = nil
		return
	}
	known.Plain, c.without.listing = &plain, &plain
}

// keepsSession tells whether a session is kept to hear of changes of the lists for
// clients without capabilities.
func (c *catalog) keepsSession() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.without.listing != nil && c.spec.Command == ""
}

// publishBoth publishes the full listing and reads the one for clients without
// capabilities where that is due, beside everything else. The first listing of all
// waits for it a moment.
func (s *Server) publishBoth(ctx context.Context, main *Conn, full *mcp.Listing, state mcp.State, reason string) {
	of, first := s.catalog.lastRead()
	moved := of == nil || !of.Offers(full)
	if !first {
		s.catalog.publish(full, state, reason)
	}
	done := s.lookWithout(main, full, moved)
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
	s.catalog.publish(full, state, reason)
}

// lookWithout begins to read the lists for clients without capabilities where that is
// due. The channel is closed when it is over.
func (s *Server) lookWithout(main *Conn, full *mcp.Listing, moved bool) <-chan struct{} {
	done := make(chan struct{})
	due := s.catalog.beginWithout(main, moved, s.spec.Command != "" && s.pool.hasWithout())
	look := func() {
		defer close(done)
		s.readWithout(main.life, main, full)
	}
	if !due || !main.spawn(look) {
		close(done)
		if due {
			s.catalog.endWithout(false) // its successor looks
		}
	}
	return done
}

// readWithout reads the lists for clients without capabilities and keeps them where
// they differ from the full ones. What was known stays where they cannot be read.
func (s *Server) readWithout(ctx context.Context, main *Conn, full *mcp.Listing) {
	_, announced := s.catalog.withoutState()
	conn, opened, err := s.openWithout(ctx)
	var listing *mcp.Listing
	anew := false
	if err == nil {
		listing, _, err = conn.fetch(ctx)
		conn.finish()
		if err == nil && len(listing.Unread) > 0 { // it cannot be compared
			err = fmt.Errorf("%s cannot be read", listing.Unread[0].ListMethod())
		}
		if errors.Is(err, transport.ErrSessionLost) {
			s.pool.lose(conn, err)
			anew = !opened // the next look opens another
		}
	}
	if opened && s.spec.Command == "" {
		err = errors.Join(err, s.sessionSurvives(ctx, main))
	}
	if err != nil {
		s.log.Debug("the lists for clients without capabilities are not read", "err", err)
	} else {
		listing.Announced = announced
		s.catalog.adoptWithout(main, full, listing)
	}
	if own, _ := s.catalog.withoutState(); opened && conn != nil && own == nil {
		s.pool.releaseIdle(conn)
	}
	if s.catalog.endWithout(anew) {
		signal(s.refetch)
	}
}

// openWithout returns a connection on which the server was told of no capabilities,
// which counts a call until finish; opened tells that there was none before.
func (s *Server) openWithout(ctx context.Context) (_ *Conn, opened bool, err error) {
	if conn := s.pool.getWithout(); conn != nil {
		return conn, false, nil
	}
	conn, err := s.pool.get(ctx, connKey{withheld: s.spec.Questions})
	return conn, true, err
}

// hasWithout tells whether there is a connection on which the server was told of no
// capabilities.
func (p *connPool) hasWithout() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.withoutConn() != nil
}

// getWithout returns such a connection, which counts a call until finish, or nil.
func (p *connPool) getWithout() *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conn := p.withoutConn()
	if conn != nil {
		conn.begin()
	}
	return conn
}

// withoutConn returns such a connection, nil when there is none; mu is held.
func (p *connPool) withoutConn() *Conn {
	for _, sl := range p.slots {
		if sl.ready() && sl.conn.declaresNothing() && sl.conn.link.Cause() == nil {
			return sl.conn
		}
	}
	return nil
}

// sessionSurvives asks whether the gateway's own session has outlived the beginning of
// another one: some servers have one at a time. It returns why not.
func (s *Server) sessionSurvives(ctx context.Context, main *Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reprobe, errCallTimeout)
	defer cancel()
	err := main.probe(ctx)
	if cause := main.link.Cause(); cause != nil {
		err = cause // something else may have found it out
	}
	lost := errors.Is(err, transport.ErrSessionLost)
	if !lost {
		if err == nil {
			s.catalog.strike(false)
		}
		return nil
	}
	over := s.catalog.strike(true)
	if over {
		s.log.Warn("the server ends a session when another begins; everyone is shown what it lists to clients that can be asked")
	}
	s.pool.lose(main, err)
	return err
}
