package upstream

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// catalog is what a server lists, and the state that the server is in. It is safe for
// concurrent use. It never calls its sink with its lock held.
type catalog struct {
	spec *Spec
	log  *slog.Logger
	sink Sink
	// extensions are the extensions that clients have declared; a listing says which of
	// them the server was told.
	extensions *extensions
	wake       func()        // wakes calls that wait for a connection; must not block
	signed     chan struct{} // the credential has changed; capacity 1

	mu      sync.Mutex
	status  mcp.Status
	login   error         // why somebody has to sign in; nil if nobody has to, or the reason is unknown
	listing *mcp.Listing  // nil while nothing is known
	moved   chan struct{} // closed when the status is set
	// expecting tells that the credential has changed and the server has not answered with
	// the new one yet.
	expecting bool
	// announced counts the list changes that the server has announced.
	announced map[mcp.Kind]uint64
	era       mcp.Era // found by the last probe; EraUnknown if it has to be probed
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

// restore publishes the last good listing until the server confirms or replaces it.
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

// current returns the listing, nil while nothing is known, and the status.
func (c *catalog) current() (*mcp.Listing, mcp.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listing, c.status
}

// waiting returns the listing, the state, and whether the credential has changed since.
// moved is closed when the status is set next.
func (c *catalog) waiting() (_ *mcp.Listing, _ mcp.State, expecting bool, moved <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listing, c.status.State, c.expecting, c.moved
}

// missing returns why somebody has to sign in before a connection is possible, nil if
// nobody has to.
func (c *catalog) missing() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.login
}

// expect notes that the credential has changed. The answer of the server to the new one is
// not known yet.
func (c *catalog) expect() {
	c.mu.Lock()
	c.expecting = true
	c.mu.Unlock()
	signal(c.signed)
}

// learned notes that the answer is known, unless the credential has changed again since
// the attempt began. mu is held.
func (c *catalog) learned() {
	if len(c.signed) == 0 {
		c.expecting = false
	}
}

// setStatus sets the status and wakes calls that wait for it or for a connection; mu is
// held.
func (c *catalog) setStatus(state mcp.State, reason string) {
	if c.status.State != state {
		c.status.Since = time.Now()
	}
	c.status.State, c.status.Reason = state, reason
	close(c.moved)
	c.moved = make(chan struct{})
	c.wake()
}

// touch wakes calls that wait for the status or for a connection.
func (c *catalog) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setStatus(c.status.State, c.status.Reason)
}

// publish sets the listing and the state. A nil listing keeps the last one.
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

// replace sets the listing. cut, unless it is empty, becomes the reason of the status.
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

// inherit copies the items of kinds that could not be read from the last listing to a new
// one.
func (c *catalog) inherit(listing *mcp.Listing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range listing.Unread {
		if c.listing != nil && len(c.listing.Items[kind]) > 0 {
			listing.Items[kind], listing.TTL[kind] = c.listing.Items[kind], c.listing.TTL[kind]
		}
	}
}

// complete adds to a listing of the own connection what is known from other connections;
// mu is held.
func (c *catalog) complete(l *mcp.Listing) {
	l.WithoutCapabilities, l.Eras, l.Other, l.Declared = c.without.listing, c.eras.speaks, c.eras.other, c.extensions.known()
	if !c.eras.again.IsZero() {
		l.Eras = 0 // it is not for certain
	}
}

// completed replaces the listing by one with what is known from other connections now; mu
// is held.
func (c *catalog) completed() {
	next := *c.listing
	c.complete(&next)
	c.listing = &next
}

// NotConnected is the message in the log of a server that failed. Where the states of
// servers are shown to the same person, it says the same again.
const NotConnected = "not connected"

// unreachable records a failed attempt to open the own connection of the gateway.
func (c *catalog) unreachable(err error) {
	c.mu.Lock()
	needsLogin := c.takeLogin(err)
	c.learned()
	c.era = c.spec.Era // the remembered era may be the reason
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
	if entered && !errors.Is(err, context.Canceled) { // which ends it on purpose
		c.log.Warn(NotConnected, "state", state.String(), "err", reason)
	}
	if changed {
		c.sink.Changed(c.spec.Key)
	}
}

// disconnected records why the own connection of the gateway was lost.
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

// takeLogin records the reason why somebody has to sign in, and tells whether somebody has
// to; mu is held.
func (c *catalog) takeLogin(err error) bool {
	c.login = nil
	if missing, ok := errors.AsType[transport.MissingError](err); ok {
		c.login = missing
	}
	_, needed := errors.AsType[*transport.LoginError](err)
	return needed
}

// announce counts a change that the server has announced on a connection. If the
// connection declares no capabilities, the change counts for both sets of lists: modern
// clients without capabilities see the full lists and are served on that connection.
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

// announcements returns how many changes of each list the server has announced.
func (c *catalog) announcements() map[mcp.Kind]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.announced)
}

// item returns the listed item that a call is about, in the era of a connection; nil if
// the server does not list it.
func (c *catalog) item(conn *Conn, call *mcp.Call) *mcp.Item {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.listing
	if l != nil && l.Other != nil && l.Era != conn.era {
		l = l.Other
	}
	return l.Find(call.Kind, call.Key)
}
