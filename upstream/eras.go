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

// eraDoubt is how long a server counts as one of a single era after its other era could
// not be opened for an unrelated reason.
const eraDoubt = 10 * time.Minute

// errOneEra tells that a server does not speak the other era. The call uses the era of the
// own connection.
var errOneEra = errors.New("the server speaks one era alone")

// errNoSession tells that a server of both eras opens no session for a legacy client.
// Without a session a legacy server cannot get answers to its questions; in the modern era
// it can.
var errNoSession = errors.New("it opens no session")

// errReplaced tells that the own connection was replaced.
var errReplaced = errors.New("another connection took its place")

// eras is what is known about the eras of a server. The first message decides the era of a
// process or session (2026-07-28 basic/versioning), and a discovery does not tell whether
// there is another one. So the gateway tries the other era when the first client of that
// era makes a call. From then on the clients of each era have their own connections. mu of
// the catalog guards it.
type eras struct {
	speaks int          // how many; 0 is unknown
	again  time.Time    // when to try the other era again; zero is never
	other  *mcp.Listing // the listing in the era that the own connection does not speak; nil while unknown
}

// eraOf returns the era of a call. It is the era of the client if the server speaks it or
// may speak it, else that of the own connection.
func (c *catalog) eraOf(call *mcp.Call, own *Conn) mcp.Era {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call.Era == mcp.EraUnknown || call.Era == own.era || !c.mayUseOther(own) {
		return own.era
	}
	return call.Era
}

// mayUseOtherEra tells whether there may be connections of another era than that of the
// own connection.
func (c *catalog) mayUseOtherEra(own *Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mayUseOther(own)
}

// mayUseOther is mayUseOtherEra while mu is held. A server that was found to be legacy was
// asked for its modern side before.
func (c *catalog) mayUseOther(own *Conn) bool {
	switch {
	case c.spec.Era != mcp.EraUnknown, own.kind.LegacyOnly, c.spec.maxPooled() == 0, c.spec.Placed:
		return false
	case c.eras.speaks == 2:
		return true
	case own.era == mcp.Legacy:
		return false
	}
	return c.eras.speaks == 0 || !c.eras.again.IsZero() && time.Now().After(c.eras.again)
}

// speaksBoth tells whether the server is known to speak both eras.
func (c *catalog) speaksBoth() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.eras.speaks == 2
}

// eraFor returns the era in which a connection begins; EraUnknown if it has to be probed.
func (c *catalog) eraFor(key connKey) mcp.Era {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case key.era != mcp.EraUnknown:
		return key.era
	case c.spec.Era == mcp.EraUnknown && time.Since(c.eraSince) >= eraMemory:
		return mcp.EraUnknown
	}
	return c.era
}

// probed records the era that a probe found.
func (c *catalog) probed(era mcp.Era) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.era, c.eraSince = era, time.Now()
	if era == mcp.Legacy {
		c.eras = eras{speaks: 1}
	}
}

// switchEra records that a connection of another era is the own connection now.
func (c *catalog) switchEra(before, now mcp.Era) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.era, c.eraSince = now, time.Now()
	c.eras.other = nil
	if c.listing != nil && c.listing.Era == before {
		other := *c.listing
		other.WithoutCapabilities, other.Other = nil, nil
		c.eras.other = &other
	}
}

// usableInOtherEra returns why a connection of the other era is useless, nil if it is not.
func (c *Conn) usableInOtherEra() error {
	if l, ok := c.link.(transport.Session); ok && c.era == mcp.Legacy && !l.HasSession() {
		return errNoSession
	}
	return nil
}

// refusesEra tells whether an error says that a server does not speak an era at all. That
// is an answer about the request itself, as from a server that does not know it.
func refusesEra(err error) bool {
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

// openedOtherEra records an attempt to open a connection of the other era. The error is
// errOneEra if the call has to use the era of the own connection.
func (c *catalog) openedOtherEra(ctx context.Context, key connKey, err error) error {
	if key.era == mcp.EraUnknown {
		return err
	}
	c.mu.Lock()
	before := c.eras.speaks
	switch login := (*transport.LoginError)(nil); {
	case err == nil:
		c.eras.speaks, c.eras.again = 2, time.Time{}
	case refusesEra(err) && before != 2:
		c.eras = eras{speaks: 1}
	case !refusesEra(err) && (before == 2 || ctx.Err() != nil || errors.As(err, &login)):
		c.mu.Unlock()
		return err
	default:
		c.eras = eras{speaks: 1, again: time.Now().Add(eraDoubt)}
	}
	now := c.eras.speaks
	if c.listing != nil && before != now {
		c.completed()
	}
	c.mu.Unlock()
	if before != now {
		c.log.Info("eras of the server", "speaks", now, "asked_for", key.era.String(), "err", err)
		c.sink.Changed(c.spec.Key)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errOneEra, err)
	}
	return nil
}

// restoreEras takes the eras from a last good listing; mu is held.
func (c *catalog) restoreEras(known *mcp.Listing) {
	if c.spec.Era != mcp.EraUnknown {
		known.Eras, known.Other = 0, nil
		return
	}
	if known.Other != nil {
		other := *known.Other
		other.Stale = true
		known.Other = &other
	}
	c.eras = eras{speaks: known.Eras, other: known.Other}
	if known.Eras == 1 && time.Since(known.FetchedAt) >= eraMemory {
		c.eras.speaks = 0
	}
}

// adoptOther takes the lists of the era that the own connection does not speak, and tells
// whether they are new.
func (c *catalog) adoptOther(listing *mcp.Listing) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.eras.other
	if c.listing == nil || c.listing.Era == listing.Era ||
		before != nil && !before.Stale && before.Offers(listing) && maps.Equal(before.Announced, listing.Announced) {
		return false
	}
	c.eras.other = listing
	c.completed()
	return true
}

// otherConn returns the connection to read the lists of the other era on, nil if there is
// none. For a URL it opens one. It counts a call until finish.
func (s *Server) otherConn(ctx context.Context, main *Conn) *Conn {
	key := connKey{era: mcp.Legacy}
	if main.era == mcp.Legacy {
		key.era = mcp.Modern
	}
	both, ready := s.catalog.speaksBoth() && s.catalog.mayUseOtherEra(main), s.pool.has(key)
	if !both || s.spec.Command != "" && !ready {
		return nil
	}
	conn, err := s.pool.get(ctx, key)
	if err != nil {
		s.log.Debug("the lists of the other era are not read", "err", err)
		return nil
	}
	return conn
}

// readOther reads the lists of the other era and subscribes to their changes. If they
// cannot be read, the last ones stay.
func (s *Server) readOther(ctx context.Context, conn *Conn) {
	if conn.era == mcp.Modern {
		if err := conn.listen(ctx); err != nil {
			s.log.Debug("subscriptions not opened", "err", err)
		}
	}
	announced := s.catalog.announcements()
	listing, _, err := conn.fetch(ctx)
	if err != nil || len(listing.Unread) > 0 {
		s.log.Debug("the lists of the other era are not read", "err", err)
		return
	}
	listing.Announced = announced
	if s.pool.adoptOther(conn, listing) {
		s.opts.Sink.Changed(s.spec.Key)
	}
}
