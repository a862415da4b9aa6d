package upstream

import (
	"context"
	"sync"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// current returns the own connection of the gateway, nil while there is none. renewing
// tells that it was lost and a new session replaces it at once, stopped that the server
// has stopped.
func (p *connPool) current() (own *Conn, renewing, stopped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own, p.renewing, p.stopped
}

// setOwn makes a connection the own one.
func (p *connPool) setOwn(conn *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own, p.renewing = conn, false
}

// dropOwn records that the own connection was lost, or with a nil conn that it could not
// be opened. A connection to a process is left for the caller to close. A lost session is
// renewed at once. running is false after the server has stopped.
func (p *connPool) dropOwn(conn *Conn, err error) (running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if conn != nil {
		if p.own == conn {
			p.own = nil
		}
		if process, ok := conn.link.(transport.Process); ok {
			p.keep(process.Tail(), err)
		}
		if !conn.shared { // it is not a process
			p.retire(conn)
		}
	}
	p.renewing = conn != nil && renewable(err)
	return !p.stopped && p.life.Err() == nil
}

// keepTail keeps the last output of a process that failed to start.
func (p *connPool) keepTail(tail transport.Tail, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep(tail, err)
}

// keep keeps the last output of a process that has ended because of err; mu is held.
func (p *connPool) keep(tail transport.Tail, err error) {
	if err != nil {
		tail.Cause = describe(err)
	}
	if p.stderr[0].Process != tail.Process {
		p.stderr[1] = p.stderr[0]
	}
	p.stderr[0] = tail
}

// tails returns the last output of the process of the own connection, or of the last
// process, and that of the process before it. The zero Tail stands for none.
func (p *connPool) tails() (last, previous transport.Tail) {
	p.mu.Lock()
	own, kept := p.own, p.stderr
	p.mu.Unlock()
	if own != nil {
		if process, ok := own.link.(transport.Process); ok {
			if last = process.Tail(); last.Process != kept[0].Process {
				return last, kept[0]
			}
		}
	}
	return kept[0], kept[1]
}

// successor returns the connection that replaced another one as the own, nil if none did.
func (p *connPool) successor(conn *Conn) *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own == conn {
		return nil
	}
	return p.own
}

// promote makes a process of the other era the own connection if nobody has used the
// current one yet. So one process is enough for clients of one era. It tells whether it
// did; mu is held.
func (p *connPool) promote(key connKey, conn *Conn) bool {
	own := p.own
	if p.spec.Command == "" || key.era == mcp.EraUnknown || key != (connKey{era: key.era}) || p.stopped ||
		own == nil || own.link.Cause() != nil || p.subs.any(key) || p.subs.any(connKey{}) || !own.discard() {
		return false
	}
	delete(p.slots, key)
	conn.own.Store(true)
	conn.use()
	p.own = conn
	p.catalog.switchEra(own.era, conn.era)
	signal(p.replaced)
	return true
}

// adoptOther passes the lists of a connection of the other era to the catalog, unless the
// own connection has that era by now. It tells whether they are new.
func (p *connPool) adoptOther(conn *Conn, listing *mcp.Listing) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own != nil && p.own.era != conn.era && p.catalog.adoptOther(listing)
}

// has tells whether there is a connection with a key. Its link may be lost.
func (p *connPool) has(key connKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	sl := p.slots[key]
	return sl != nil && sl.ready()
}

// opened returns the open connection with a key, nil if there is none.
func (p *connPool) opened(key connKey, own *Conn) *Conn {
	if key == (connKey{}) {
		return own
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if sl := p.slots[key]; sl != nil && sl.ready() && sl.conn.link.Cause() == nil {
		return sl.conn
	}
	return nil
}

// owned returns the connection with a key and opens it if there is none. It counts a call
// until finish.
func (p *connPool) owned(ctx context.Context, key connKey, own *Conn) (*Conn, error) {
	if key == (connKey{}) {
		own.begin() // before use, so that it is not closed in between
		if !own.use() {
			own.finish()
			return nil, errReplaced
		}
		return own, nil
	}
	return p.get(ctx, key)
}

// named returns the connection that a call names, if its caller is one of those who share
// it. It counts a call until finish.
func (p *connPool) named(call *mcp.Call) (*Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	conn := p.own
	for _, sl := range p.slots {
		if sl.ready() && sl.conn.name == call.Conn {
			conn = sl.conn
		}
	}
	if conn == nil || conn.name != call.Conn || conn.link.Cause() != nil ||
		conn.key.principal != "" && conn.key.principal != call.Principal || conn.key.session != "" && conn.key.session != call.Session {
		return nil, transport.Undelivered(errGone)
	}
	conn.begin()
	return conn, nil
}

// lose gives up a connection whose session the server has forgotten.
func (p *connPool) lose(conn *Conn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own == conn {
		p.renewing = true
		conn.link.Fail(err)
		return
	}
	if sl := p.slots[conn.key]; sl != nil && sl.conn == conn {
		p.release(conn.key, sl)
	}
}

// releaseIdle closes a connection unless somebody uses it.
func (p *connPool) releaseIdle(conn *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sl := p.slots[conn.key]; sl != nil && sl.conn == conn && sl.idle() {
		p.release(conn.key, sl)
	}
}

// endSession closes the connections of a session that has ended.
func (p *connPool) endSession(its func(connKey) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.again {
		if its(key) {
			delete(p.again, key)
		}
	}
	for key, sl := range p.slots {
		if its(key) {
			p.release(key, sl)
		}
	}
}

// retire closes a connection in the background when its last call has ended: calls over
// HTTP may still get their answers. mu is held.
func (p *connPool) retire(conn *Conn) {
	p.leaving[conn] = struct{}{}
	p.wg.Go(func() {
		p.awaitCalls(p.life, conn)
		if conn.shared {
			p.mu.Lock()
			p.ending++
			p.mu.Unlock()
			defer p.hasEnded()
		}
		closeConn(conn)
	})
}

// retireReplaced retires a connection that another has replaced.
func (p *connPool) retireReplaced(conn *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retire(conn)
}

// awaitCalls waits until the last call of a connection has ended that is among the leaving, at
// most until ctx ends.
func (p *connPool) awaitCalls(ctx context.Context, conn *Conn) {
	for conn.calls.Load() > 0 && backoff.Sleep(ctx, drainStep) == nil {
	}
	p.mu.Lock()
	delete(p.leaving, conn)
	p.mu.Unlock()
}

// inFlight returns how many calls are in flight.
func (p *connPool) inFlight() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := int64(0)
	if p.own != nil {
		n += p.own.calls.Load()
	}
	for conn := range p.leaving {
		n += conn.calls.Load()
	}
	for _, sl := range p.slots {
		if sl.conn != nil {
			n += sl.conn.calls.Load()
		}
	}
	return n
}

// stop refuses new connections.
func (p *connPool) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

// close ends every connection except the own one, and waits for every goroutine of the
// pool.
func (p *connPool) close() {
	p.mu.Lock()
	slots := p.slots
	p.slots = make(map[connKey]*slot)
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, sl := range slots {
		all.Go(func() {
			<-sl.opened
			if sl.conn != nil {
				closeConn(sl.conn)
			}
		})
	}
	all.Wait()
	p.wg.Wait()
}

func closeConn(conn *Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	conn.close(ctx)
}
