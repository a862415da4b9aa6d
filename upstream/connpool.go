package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/toolgate/toolgate/upstream/transport"
)

// connPool holds the connections of a server: the own connection of the gateway, which
// reads the lists, and a bounded number of connections of principals and sessions. It is
// safe for concurrent use. Lock order: the pool before the catalog and the subscriptions.
type connPool struct {
	spec    *Spec
	log     *slog.Logger
	of      opener
	catalog *catalog
	subs    *subscriptions

	tidy chan struct{} // a connection was opened or lost
	// replaced tells that the own connection was replaced.
	replaced chan struct{}
	freed    bell // a connection may be free

	wg   sync.WaitGroup  // opens and closes connections
	life context.Context // of the server; set by Run before anything uses it

	mu       sync.Mutex
	own      *Conn              // the own connection of the gateway; nil while there is none
	renewing bool               // the own connection was lost and a new session replaces it at once
	leaving  map[*Conn]struct{} // were replaced or moved, and end with their last call
	slots    map[connKey]*slot
	again    map[connKey]*reopening // of connections that subscriptions wait for
	ending   int                    // processes that are ending
	ended    chan struct{}          // closed when one of them has ended
	stderr   [2]transport.Tail      // of the last processes that ended or failed to start, newest first
	stopped  bool
}

// opener opens the connections of a pool.
type opener interface {
	// openBeside opens a connection of the pool. The error is errOneEra if the call has to
	// use the era of the own connection.
	openBeside(ctx context.Context, key connKey) (*Conn, error)
	// openedBeside is told of a connection that joined the pool, or that became the own
	// connection (promoted). unread tells that it can serve to read the lists for clients
	// without capabilities, which nobody has read yet.
	openedBeside(ctx context.Context, key connKey, conn *Conn, promoted, unread bool)
	// resubscribe repeats the subscriptions of a connection.
	resubscribe(ctx context.Context, conn *Conn)
}

func newConnPool(spec *Spec, log *slog.Logger, of opener, c *catalog, subs *subscriptions) *connPool {
	return &connPool{
		spec: spec, log: log, of: of, catalog: c, subs: subs,
		tidy: make(chan struct{}, 1), replaced: make(chan struct{}, 1), ended: make(chan struct{}),
		leaving: make(map[*Conn]struct{}), slots: make(map[connKey]*slot), again: make(map[connKey]*reopening),
	}
}

// slot holds a connection of the pool, or one that is being opened.
type slot struct {
	opened chan struct{} // closed when conn or err is set
	conn   *Conn
	err    error
	since  time.Time // when it was opened

	waiting int // callers that wait for it or are about to use it; mu of the pool
}

// ready tells whether the connection is open.
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

var errPoolFull = errors.New("all its connections are in use")

// get returns the connection with a key and opens it first if there is none. Callers that
// come together wait for one attempt. The connection counts a call until finish.
func (p *connPool) get(ctx context.Context, key connKey) (*Conn, error) {
	p.mu.Lock()
	sl := p.slots[key]
	if sl != nil && sl.ready() && sl.conn.link.Cause() != nil {
		p.release(key, sl)
		sl = nil
	}
	if sl == nil {
		if p.stopped || !p.makeRoom(key.principal) {
			err := errPoolFull
			if p.stopped {
				err = transport.ErrClosed
			}
			p.mu.Unlock()
			return nil, transport.Undelivered(err)
		}
		sl = p.take(key)
	}
	sl.waiting++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		sl.waiting--
		p.mu.Unlock()
		p.freed.ring()
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

// makeRoom closes a connection if the pool has no room for one more of a principal. It
// tells whether there is room now; mu is held.
func (p *connPool) makeRoom(principal string) bool {
	held, keys := p.held()
	victim, ok := admit(held, principal, p.spec.maxPooled())
	if victim >= 0 {
		p.release(keys[victim], p.slots[keys[victim]])
	}
	return ok
}

// held returns the connections of the pool and their keys; mu is held.
func (p *connPool) held() (held []pooledConn, keys []connKey) {
	for key, sl := range p.slots {
		if sl.ready() && sl.conn.link.Cause() != nil {
			p.release(key, sl)
			continue
		}
		at := pooledConn{principal: key.principal, idle: sl.idle()}
		switch {
		case at.idle:
			at.used = sl.conn.used.Load()
		case sl.ready() && sl.waiting == 0:
			at.suspended = sl.conn.suspendedSince()
		}
		held, keys = append(held, at), append(keys, key)
	}
	return held, keys
}

// take adds a slot and begins to open its connection; mu is held.
func (p *connPool) take(key connKey) *slot {
	sl := &slot{opened: make(chan struct{})}
	p.slots[key] = sl
	p.wg.Go(func() { p.fill(key, sl) })
	return sl
}

// fill opens the connection of a slot.
func (p *connPool) fill(key connKey, sl *slot) {
	var conn *Conn
	err := p.awaitEnds(p.life)
	if err == nil {
		conn, err = p.of.openBeside(p.life, key)
	}
	p.mu.Lock()
	if r := p.again[key]; r != nil && err != nil {
		r.failed(err)
		p.log.Debug("connection of subscriptions not opened again", "err", err)
	}
	if err != nil {
		err = transport.Undelivered(err)
	}
	if conn != nil && !p.stopped && p.slots[key] != sl { // its session ended meanwhile
		p.retire(conn)
		conn, err = nil, transport.Undelivered(transport.ErrClosed)
	}
	promoted := conn != nil && p.slots[key] == sl && p.promote(key, conn)
	unread := conn != nil && conn.declaresNothing() && p.spec.Command != "" && p.catalog.waitsFor(p.own)
	sl.conn, sl.err, sl.since = conn, err, time.Now()
	if err != nil && p.slots[key] == sl {
		delete(p.slots, key)
	}
	p.mu.Unlock()
	close(sl.opened)
	p.freed.ring()
	signal(p.tidy)
	if err == nil {
		p.of.openedBeside(p.life, key, conn, promoted, unread)
	}
}

// awaitEnds waits until the processes that made room have ended. So there are never more
// than allowed, except for processes whose session ended during a call. A process ends
// within closeTime.
func (p *connPool) awaitEnds(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.spec.Timeouts.Start,
		errors.New("the process whose place it takes does not end"))
	defer cancel()
	for {
		p.mu.Lock()
		free, ended := len(p.slots)+p.ending <= p.spec.maxPooled(), p.ended
		p.mu.Unlock()
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
func (p *connPool) release(key connKey, sl *slot) {
	delete(p.slots, key)
	p.freed.ring()
	if p.subs.any(key) {
		signal(p.tidy) // it is opened again when there is room
	}
	conn := sl.conn
	if conn == nil {
		return
	}
	if conn.shared && conn.calls.Load() == 0 {
		// The process counts as ending from now on, without a gap.
		p.ending++
		p.wg.Go(func() { closeConn(conn); p.hasEnded() })
		return
	}
	p.retire(conn)
}

// hasEnded notes that a process has ended.
func (p *connPool) hasEnded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending--
	close(p.ended)
	p.ended = make(chan struct{})
}
