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

// WithoutCapabilities says how the gateway finds out what a legacy server lists to clients
// without capabilities. The configuration calls it plain_catalog.
type WithoutCapabilities string

// The values of [WithoutCapabilities]. The zero value is WithoutNever.
const (
	// WithoutNever shows the full lists to everyone.
	WithoutNever WithoutCapabilities = "never"
	// WithoutAuto reads the lists over HTTP, and from processes that run anyway.
	WithoutAuto WithoutCapabilities = "auto"
	// WithoutAlways starts a process for it if there is none, and shows nothing before the
	// lists were read.
	WithoutAlways WithoutCapabilities = "always"
)

const (
	// withoutWait is how long the first listing waits for the lists without capabilities,
	// unless [WithoutAlways] is set.
	withoutWait = 300 * time.Millisecond
	// withoutAge is how long the result that both sets of lists are equal is trusted while
	// nothing changes.
	withoutAge = time.Hour
	// maxStrikes is how often in a row the server may end the own session after another
	// session was opened to read these lists.
	maxStrikes = 2
)

// withoutCapabilities is what is known about the lists for clients without capabilities;
// mu of the catalog guards it.
type withoutCapabilities struct {
	listing   *mcp.Listing        // nil if it is equal to the full one, or unknown
	announced map[mcp.Kind]uint64 // changes that were announced on connections without capabilities

	main   *Conn        // the own connection at the last reading
	full   *mcp.Listing // the full listing then
	at     time.Time    // when it was
	due    bool         // there may be something new to read
	busy   bool         // somebody reads
	reader *Conn        // the own connection that it reads for
	struck int          // see maxStrikes
}

// declaresNothing tells whether the connection declares no capabilities to the server
// although others may.
func (c *Conn) declaresNothing() bool {
	return c.era == mcp.Legacy && c.key.withheld != (Questions{}) && c.key.withheld == c.spec.Questions
}

// varies tells whether the lists for clients without capabilities may differ from the full
// ones; mu is held. The lists of a modern server depend on authorization alone (2026-07-28
// server/tools, Listing Tools).
func (c *catalog) varies(era mcp.Era) bool {
	nothingDeclared := c.spec.Questions == (Questions{}) || c.spec.Isolation == IsolateShared && c.spec.Local == ""
	return era == mcp.Legacy && c.spec.Without != "" && c.spec.Without != WithoutNever && !nothingDeclared &&
		c.spec.maxPooled() > 0 && c.without.struck < maxStrikes
}

// withoutDue tells whether to read the lists for clients without capabilities now that the
// full ones were read. moved tells that the full ones have changed, open that there is a
// connection to read on. mu is held.
func (c *catalog) withoutDue(main *Conn, moved, open bool) bool {
	w := &c.without
	if w.busy || !c.varies(main.era) {
		return false
	}
	news := w.due || w.main != main || moved
	if c.spec.Command == "" {
		return news || w.listing != nil || time.Since(w.at) > withoutAge
	}
	return news && (c.spec.Without == WithoutAlways || w.listing != nil || open)
}

// beginWithout tells whether to read the lists for clients without capabilities. If so,
// the reading has begun, and ends with endWithout.
func (c *catalog) beginWithout(main *Conn, moved, open bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.varies(main.era) {
		c.without.listing = nil
	}
	due := c.withoutDue(main, moved, open)
	switch {
	case due:
		c.without.busy, c.without.due, c.without.reader = true, false, main
	case c.without.busy && c.without.reader != main:
		c.without.due = true // for this connection, when the reading for its predecessor has ended
	}
	return due
}

// endWithout ends a reading and tells whether another one is due.
func (c *catalog) endWithout(again bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.without.busy = false
	c.without.due = c.without.due || again
	return c.without.due
}

// withoutState returns the lists for clients without capabilities and the announced
// changes of them. The listing is nil if it is equal to the full one.
func (c *catalog) withoutState() (*mcp.Listing, map[mcp.Kind]uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.without.listing, maps.Clone(c.without.announced)
}

// waitsFor tells whether the lists for clients without capabilities have not been read yet
// for the own connection.
func (c *catalog) waitsFor(main *Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.without.main != main && !c.without.busy
}

// lastRead returns the full listing at the last reading of the lists without capabilities,
// nil for none, and whether nothing has been published yet.
func (c *catalog) lastRead() (of *mcp.Listing, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.without.full, c.listing == nil
}

// strike counts that the server ended the own session when another one began. It tells
// whether the limit is reached. A session that survived resets the count.
func (c *catalog) strike(lost bool) (over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !lost {
		c.without.struck = 0
		return false
	}
	c.without.struck++
	return c.without.struck == maxStrikes
}

// adoptWithout takes the lists for clients without capabilities if they differ from the
// full ones, and publishes both.
func (c *catalog) adoptWithout(main *Conn, full, listing *mcp.Listing) {
	c.mu.Lock()
	before, seen := c.without.listing, c.listing
	c.mu.Unlock()
	if seen != nil {
		full = seen // else full is about to be published
	}
	switch {
	case full.Offers(listing):
		listing = nil
	case before != nil && !before.Stale && before.Offers(listing) && maps.Equal(before.Announced, listing.Announced):
		listing = before
	}
	c.mu.Lock()
	w := &c.without
	w.main, w.full, w.at, w.listing = main, full, time.Now(), listing
	switch now := c.listing; {
	case now == nil || now == seen && now.WithoutCapabilities == listing:
		c.mu.Unlock()
		return
	case now != seen && now != full:
		w.due = true // it was compared with an outdated listing
	}
	next := *c.listing
	next.WithoutCapabilities = listing
	c.listing, w.full = &next, &next
	c.mu.Unlock()
	c.sink.Changed(c.spec.Key)
}

// fullOnly tells whether the server lists the target of a call only to clients with
// capabilities.
func (c *catalog) fullOnly(call *mcp.Call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.listing
	return l != nil && l.WithoutCapabilities != nil && l.Find(call.Kind, call.Key) != nil && l.WithoutCapabilities.Find(call.Kind, call.Key) == nil
}

// restoreWithout takes the lists for clients without capabilities from a last good
// listing; mu is held.
func (c *catalog) restoreWithout(known *mcp.Listing) {
	if known.WithoutCapabilities == nil {
		return
	}
	plain := *known.WithoutCapabilities
	plain.Stale = true
	if !c.varies(known.Era) {
		known.WithoutCapabilities = nil
		return
	}
	known.WithoutCapabilities, c.without.listing = &plain, &plain
}

// keepsSession tells whether a session stays open to hear of changes of the lists for
// clients without capabilities.
func (c *catalog) keepsSession() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.without.listing != nil && c.spec.Command == ""
}

// publishBoth publishes the full listing and, if it is due, starts to read the lists for
// clients without capabilities in the background. The very first listing waits for them
// for a moment.
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
	wait := withoutWait
	if s.spec.Without == WithoutAlways {
		wait = s.spec.Timeouts.Start // the operator wants to wait for the process
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

// lookWithout starts to read the lists for clients without capabilities if that is due.
// The channel is closed at the end.
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
			s.catalog.endWithout(false) // its successor reads them
		}
	}
	return done
}

// readWithout reads the lists for clients without capabilities. If they cannot be read,
// the last ones stay.
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
			anew = !opened // the next reading opens another
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

// openWithout returns a connection without capabilities, which counts a call until finish.
// opened tells that there was none before.
func (s *Server) openWithout(ctx context.Context) (_ *Conn, opened bool, err error) {
	if conn := s.pool.getWithout(); conn != nil {
		return conn, false, nil
	}
	conn, err := s.pool.get(ctx, connKey{withheld: s.spec.Questions})
	return conn, true, err
}

// hasWithout tells whether the pool has a connection without capabilities.
func (p *connPool) hasWithout() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.withoutConn() != nil
}

// getWithout returns a connection without capabilities, which counts a call until finish,
// or nil.
func (p *connPool) getWithout() *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conn := p.withoutConn()
	if conn != nil {
		conn.begin()
	}
	return conn
}

// withoutConn returns a connection without capabilities, nil if there is none; mu is held.
func (p *connPool) withoutConn() *Conn {
	for _, sl := range p.slots {
		if sl.ready() && sl.conn.declaresNothing() && sl.conn.link.Cause() == nil {
			return sl.conn
		}
	}
	return nil
}

// sessionSurvives asks whether the own session is still alive after another one began:
// some servers have one session at a time. It returns why not.
func (s *Server) sessionSurvives(ctx context.Context, main *Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reprobe, errCallTimeout)
	defer cancel()
	err := main.probe(ctx)
	if cause := main.link.Cause(); cause != nil {
		err = cause // another goroutine may have noticed
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
		s.log.Warn("the server ends a session when another begins; all clients are shown the lists for clients with capabilities")
	}
	s.pool.lose(main, err)
	return err
}
