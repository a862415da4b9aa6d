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

// eraDoubt is how long a server counts as one of a single era because its other
// one could not be opened, for a reason that is not the era.
const eraDoubt = 10 * time.Minute

// errOneEra tells that a server does not speak the other era, so that the call
// is made in the era of the gateway's own connection.
var errOneEra = errors.New("the server speaks one era alone")

// errNoSession tells that a server of both eras opens no session for a legacy client.
// What it asks is answered within one, so that it asks nobody there; in the modern
// era it may.
var errNoSession = errors.New("it opens no session")

// errReplaced tells that another connection is the gateway's own now.
var errReplaced = errors.New("another connection took its place")

// eras is what is known of the eras that a server speaks. A process or a session
// is of the era of its first message (2026-07-28 basic/versioning), and a
// discovery does not name the other one. So a server is asked in the other era
// when the first client of that era calls it; from then on clients of each era
// have connections of their own. mu of the server guards it.
type eras struct {
	speaks int          // how many; 0 is not known
	again  time.Time    // when a single era is doubted; zero is never
	other  *mcp.Listing // what is listed in the era that is not the gateway's own; nil while not known
}

// eraOf returns the era in which a call is made: its client's, where the server
// speaks it or may, and else that of the gateway's own connection.
func (s *Server) eraOf(call *mcp.Call, main *Conn) mcp.Era {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call.Era == mcp.EraUnknown || call.Era == main.era || !s.mayTurn(main) {
		return main.era
	}
	return call.Era
}

// mayTurn tells whether there may be connections of another era than the gateway's
// own; mu is held. A server that was found to be legacy was asked for its modern
// side before.
func (s *Server) mayTurn(main *Conn) bool {
	switch {
	case s.spec.Era != mcp.EraUnknown, main.kind.LegacyOnly, s.places() == 0:
		return false
	case s.eras.speaks == 2:
		return true
	case main.era == mcp.Legacy:
		return false
	}
	return s.eras.speaks == 0 || !s.eras.again.IsZero() && time.Now().After(s.eras.again)
}

// turned tells whether the server is known to speak both eras.
func (s *Server) turned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eras.speaks == 2
}

// probed takes note of the era that a probe found; mu is held.
func (s *Server) probed(era mcp.Era) {
	if era == mcp.Legacy {
		s.eras = eras{speaks: 1}
	}
}

// hasTurned returns why a connection of the other era is of no use.
func (c *Conn) hasTurned() error {
	if l, ok := c.link.(transport.Session); ok && c.era == mcp.Legacy && !l.HasSession() {
		return errNoSession
	}
	return nil
}

// turnedDown tells whether a server has refused to speak an era, and not only this
// once: what it says of the request itself, as a server does that does not know it.
func turnedDown(err error) bool {
	var fault *mcp.Error
	var status *transport.StatusError
	switch {
	case errors.Is(err, errNotModern), errors.Is(err, errNoSession):
		return true
	case errors.As(err, &fault):
		switch fault.Code {
		case mcp.CodeMethodNotFound, mcp.CodeInvalidRequest, mcp.CodeInvalidParams, mcp.CodeUnsupportedVersion:
			return true
		}
		return false
	}
	return errors.As(err, &status) && transport.IsRejection(status)
}

// learnEras takes note of an attempt to open a connection of the other era. The
// error is errOneEra where the call is to be made in the gateway's own.
func (s *Server) learnEras(ctx context.Context, key connKey, err error) error {
	if key.era == mcp.EraUnknown {
		return err
	}
	s.mu.Lock()
	before := s.eras.speaks
	switch login := (*transport.LoginError)(nil); {
	case err == nil:
		s.eras.speaks, s.eras.again = 2, time.Time{}
	case turnedDown(err) && before != 2:
		s.eras = eras{speaks: 1}
	case !turnedDown(err) && (before == 2 || ctx.Err() != nil || errors.As(err, &login)):
		s.mu.Unlock()
		return err
	default:
		s.eras = eras{speaks: 1, again: time.Now().Add(eraDoubt)}
	}
	now := s.eras.speaks
	if s.listing != nil && before != now {
		next := *s.listing
		s.complete(&next)
		s.listing = &next
	}
	s.mu.Unlock()
	if before != now {
		s.log.Info("eras of the server", "speaks", now, "asked_for", key.era.String(), "err", err)
		s.opts.Sink.Changed(s.spec.Key)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errOneEra, err)
	}
	return nil
}

// complete adds to a listing of the gateway's own connection what is known beside
// it; mu is held.
func (s *Server) complete(l *mcp.Listing) {
	l.Plain, l.Eras, l.Other, l.Declared = s.plain.listing, s.eras.speaks, s.eras.other, s.extensions.known()
	if !s.eras.again.IsZero() {
		l.Eras = 0 // it is not for certain
	}
}

// knowEras takes over what a last good listing says of the eras; before Run.
func (s *Server) knowEras(known *mcp.Listing) {
	if s.spec.Era != mcp.EraUnknown {
		known.Eras, known.Other = 0, nil
		return
	}
	if known.Other != nil {
		other := *known.Other
		other.Stale = true
		known.Other = &other
	}
	s.eras = eras{speaks: known.Eras, other: known.Other}
	if known.Eras == 1 && time.Since(known.FetchedAt) >= eraMemory {
		s.eras.speaks = 0
	}
}

// promote makes a process of the other era the gateway's own where nobody has
// used that one yet: clients of one era alone need one process. It tells whether
// it did; mu is held.
func (s *Server) promote(key connKey, conn *Conn) bool {
	main := s.main
	if s.spec.Command == "" || key.era == mcp.EraUnknown || key != (connKey{era: key.era}) || s.stopped ||
		main == nil || main.link.Cause() != nil || len(s.subs[key])+len(s.subs[connKey{}]) > 0 || !main.discard() {
		return false
	}
	delete(s.pool, key)
	conn.own.Store(true)
	conn.use()
	s.main, s.era, s.eraSince = conn, conn.era, time.Now()
	s.eras.other = nil
	if s.listing != nil && s.listing.Era == main.era {
		other := *s.listing
		other.Plain, other.Other = nil, nil
		s.eras.other = &other
	}
	signal(s.replaced)
	return true
}

// successor returns the connection that took the place of one as the gateway's
// own, nil when none did.
func (s *Server) successor(conn *Conn) *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main == conn {
		return nil
	}
	return s.main
}

// otherConn returns the connection on which the lists of the other era are read,
// nil when there is none; a URL is asked on a new one. It counts a call until
// finish.
func (s *Server) otherConn(ctx context.Context, main *Conn) *Conn {
	key := connKey{era: mcp.Legacy}
	if main.era == mcp.Legacy {
		key.era = mcp.Modern
	}
	s.mu.Lock()
	sl := s.pool[key]
	both, ready := s.eras.speaks == 2 && s.mayTurn(main), sl != nil && sl.ready()
	s.mu.Unlock()
	if !both || s.spec.Command != "" && !ready {
		return nil
	}
	conn, err := s.pooled(ctx, key)
	if err != nil {
		s.log.Debug("the lists of the other era are not read", "err", err)
		return nil
	}
	return conn
}

// readOther reads the lists of the other era, and listens there for changes. What
// was known stays where they cannot be read.
func (s *Server) readOther(ctx context.Context, conn *Conn) {
	if conn.era == mcp.Modern {
		if err := conn.listen(ctx); err != nil {
			s.log.Debug("subscriptions not opened", "err", err)
		}
	}
	s.mu.Lock()
	announced := maps.Clone(s.announced)
	s.mu.Unlock()
	listing, _, err := conn.fetch(ctx)
	if err != nil || len(listing.Unread) > 0 {
		s.log.Debug("the lists of the other era are not read", "err", err)
		return
	}
	listing.Announced = announced
	s.mu.Lock()
	before := s.eras.other
	if s.main == nil || s.main.era == conn.era || s.listing == nil || s.listing.Era == conn.era ||
		before != nil && !before.Stale && before.Offers(listing) && maps.Equal(before.Announced, listing.Announced) {
		s.mu.Unlock()
		return
	}
	s.eras.other = listing
	next := *s.listing
	s.complete(&next)
	s.listing = &next
	s.mu.Unlock()
	s.opts.Sink.Changed(s.spec.Key)
}

// item returns what the server lists, in the era of a connection, of what a call
// is about; nil when it does not.
func (s *Server) item(conn *Conn, call *mcp.Call) *mcp.Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.listing
	if l != nil && l.Other != nil && l.Era != conn.era {
		l = l.Other
	}
	return l.Find(call.Kind, call.Key)
}
