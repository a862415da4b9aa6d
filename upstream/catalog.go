package upstream

import (
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// catalog is what a server lists, and the state that the server is in. It is safe for
// concurrent use. It tells its sink without its lock held.
type catalog struct {
	spec *Spec
	log  *slog.Logger
	sink Sink
	// extensions are those that a listing says the server was told of.
	extensions *extensions
	wake       func()        // wakes those who wait for a connection; must not block
	signed     chan struct{} // the credential is another one; capacity 1

	mu      sync.Mutex
	status  mcp.Status
	login   error         // why somebody has to sign in; nil when nobody has, or it is not known
	listing *mcp.Listing  // nil while nothing is known
	moved   chan struct{} // closed when the status is set
	// expecting tells that there is another credential than the state is of.
	expecting bool
	// announced counts the list changes that the server has announced.
	announced map[mcp.Kind]uint64
	era       mcp.Era // that was found last; EraUnknown where it is to be found out
	eraSince  time.Time
	eras      eras
	without   withoutCapabilities
}

func newCatalog(spec *Spec, log *slog.Logger, sink Sink, e *extensions, wake func()) *catalog {
	return &catalog{
		spec: spec, log: log, sink: sink, extensions: e, wake: wake, signed: make(chan struct{}, 1),
		status: mcp.Status{State: mcp.Starting, Since: time.Now()}, era: spec.Era,
		moved: make(chan struct{}), announced: make(map[mcp.Kind]uint64),
	}
}

// restore takes over the last good listing, which counts until the server confirms or
// replaces it.
func (c *catalog) restore(last *mcp.Listing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := *last
	known.Stale = true
	c.restoreWithout(&known)
	c.restoreEras(&known)
	c.listing = &known
	if c.era == mcp.EraUnknown && time.Since(known.FetchedAt) < eraMemory {
		c.era, c.eraSince = known.Era, known.FetchedAt
	}
}

// current returns the listing, nil while nothing is known, and the state.
func (c *catalog) current() (*mcp.Listing, mcp.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listing, c.status
}

// waiting returns the listing and the state, whether there is another credential than
// they are of, and a channel that is closed when the state is set next.
func (c *catalog) waiting() (_ *mcp.Listing, _ mcp.State, expecting bool, moved <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listing, c.status.State, c.expecting, c.moved
}

// missing returns why somebody has to sign in before there is a connection, nil
// when nobody has.
func (c *catalog) missing() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.login
}

// expect notes that the credential is another one, of which it is not known yet what
// the server makes of it.
func (c *catalog) expect() {
	c.mu.Lock()
	c.expecting = true
	c.mu.Unlock()
	signal(c.signed)
}

// learned notes that it is known: unless there was news of another credential since
// the attempt began. mu is held.
func (c *catalog) learned() {
	if len(c.signed) == 0 {
		c.expecting = false
	}
}

// setStatus enters a state and wakes whoever waits for one, or for a connection; mu
// is held.
func (c *catalog) setStatus(state mcp.State, reason string) {
	if c.status.State != state {
		c.status.Since = time.Now()
	}
	c.status.State, c.status.Reason = state, reason
	close(c.moved)
	c.moved = make(chan struct{})
	c.wake()
}

// touch wakes whoever waits for a state or a connection.
func (c *catalog) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setStatus(c.status.State, c.status.Reason)
}

// publish sets the listing (nil keeps the last one) and the state.
func (c *catalog) publish(listing *mcp.Listing, state mcp.State, reason string) {
	c.mu.Lock()
	if listing != nil {
		c.complete(listing)
		if same(c.listing, listing) {
			listing = nil
		} else {
			c.listing = listing
		}
	}
	c.learned()
	news := listing != nil || c.status.State != state || c.status.Reason != reason
	c.setStatus(state, reason)
	c.mu.Unlock()
	if news {
		c.sink.Changed(c.spec.Key)
	}
}

// replace sets the listing; cut, if there is something, is the new reason of the state.
func (c *catalog) replace(listing *mcp.Listing, cut string) {
	c.mu.Lock()
	listing.Announced = maps.Clone(c.announced)
	c.complete(listing)
	c.listing = listing
	if cut != "" {
		c.status.Reason = cut
	}
	c.mu.Unlock()
	c.sink.Changed(c.spec.Key)
}

// inherit gives a new listing what is known of the kinds that it lacks because their
// lists could not be read.
func (c *catalog) inherit(listing *mcp.Listing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range listing.Unread {
		if c.listing != nil && len(c.listing.Items[kind]) > 0 {
			listing.Items[kind], listing.TTL[kind] = c.listing.Items[kind], c.listing.TTL[kind]
		}
	}
}

// complete adds to a listing of the gateway's own connection what is known beside
// it; mu is held.
func (c *catalog) complete(l *mcp.Listing) {
	l.Plain, l.Eras, l.Other, l.Declared = c.without.listing, c.eras.speaks, c.eras.other, c.extensions.known()
	if !c.eras.again.IsZero() {
		l.Eras = 0 // it is not for certain
	}
}

// completed has the listing say anew what is known beside it; mu is held.
func (c *catalog) completed() {
	next := *c.listing
	c.complete(&next)
	c.listing = &next
}

// unreachable records a failed attempt to open the gateway's own connection.
func (c *catalog) unreachable(err error) {
	c.mu.Lock()
	needsLogin := c.takeLogin(err)
	c.learned()
	c.era = c.spec.Era // what was remembered may be the reason
	state := mcp.Failed
	switch {
	case needsLogin:
		state = mcp.NeedsLogin
	case c.listing != nil && !c.listing.Stale:
		state = mcp.Reconnecting
	case c.listing != nil:
		state = mcp.Stale
	}
	reason := describe(err)
	entered, changed := c.status.State != state, c.status.State != state || c.status.Reason != reason
	c.setStatus(state, reason)
	c.mu.Unlock()
	if entered {
		c.log.Warn("not connected", "state", state.String(), "err", reason)
	}
	if changed {
		c.sink.Changed(c.spec.Key)
	}
}

// disconnected records why the gateway's own connection was lost.
func (c *catalog) disconnected(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := mcp.Reconnecting
	if c.takeLogin(err) {
		state = mcp.NeedsLogin
		c.learned()
	}
	c.setStatus(state, describe(err))
}

// takeLogin notes why somebody has to sign in, and tells whether somebody has; mu is
// held.
func (c *catalog) takeLogin(err error) bool {
	c.login = nil
	if missing, ok := errors.AsType[transport.MissingError](err); ok {
		c.login = missing
	}
	_, needed := errors.AsType[*transport.LoginError](err)
	return needed
}

// announce counts a change that the server has announced on a connection. One of where
// it was told nothing is news for everyone: modern clients that declare nothing are
// shown the full lists and are served there.
func (c *catalog) announce(conn *Conn, method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range mcp.Kinds {
		if kind.Changed() != method {
			continue
		}
		c.announced[kind]++
		if c.without.listing != nil && conn.declaresNothing() {
			if c.without.announced == nil {
				c.without.announced = make(map[mcp.Kind]uint64)
			}
			c.without.announced[kind]++
		}
	}
	c.without.due = true
}

// announcements returns how many changes of each list were announced.
func (c *catalog) announcements() map[mcp.Kind]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.announced)
}

// item returns what the server lists, in the era of a connection, of what a call
// is about; nil when it does not.
func (c *catalog) item(conn *Conn, call *mcp.Call) *mcp.Item {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.listing
	if l != nil && l.Other != nil && l.Era != conn.era {
		l = l.Other
	}
	return l.Find(call.Kind, call.Key)
}
