package upstream

import (
	"context"
	"errors"
	"sync"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// current returns the gateway's own connection, nil while there is none, whether it was
// lost in a way that a new one cures at once, and whether the server has stopped.
func (p *connPool) current() (own *Conn, renewing, stopped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own, p.renewing, p.stopped
}

// setOwn makes a connection the gateway's own.
func (p *connPool) setOwn(conn *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own, p.renewing = conn, false
}

// dropOwn takes note that the gateway's own connection was lost, or could not be opened
// where conn is nil. A lost session is renewed at once. It is false for a server that
// has stopped.
func (p *connPool) dropOwn(conn *Conn, err error) (running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if conn != nil {
		if p.own == conn {
			p.own = nil
		}
		if process, ok := conn.link.(transport.Process); ok {
			p.stderr = process.Tail()
		}
	}
	p.renewing = conn != nil && errors.Is(err, transport.ErrSessionLost)
	return !p.stopped && p.life.Err() == nil
}

// keepTail keeps what a process has written that could not be used.
func (p *connPool) keepTail(tail transport.Tail) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stderr = tail
}

// tail returns what the process of the gateway's own connection has written, or the
// last one that it had.
func (p *connPool) tail() transport.Tail {
	p.mu.Lock()
	own, kept := p.own, p.stderr
	p.mu.Unlock()
	if own != nil {
		if process, ok := own.link.(transport.Process); ok {
			return process.Tail()
		}
	}
	return kept
}

// successor returns the connection that took the place of one as the gateway's
// own, nil when none did.
func (p *connPool) successor(conn *Conn) *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own == conn {
		return nil
	}
	return p.own
}

// promote makes a process of the other era the gateway's own where nobody has
// used that one yet: clients of one era alone need one process. It tells whether
// it did; mu is held.
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

// adoptOther gives the lists of a connection of the other era to the catalog, unless
// its era is the gateway's own by now. It tells whether they are news.
func (p *connPool) adoptOther(conn *Conn, listing *mcp.Listing) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own != nil && p.own.era != conn.era && p.catalog.adoptOther(listing)
}

// has tells whether there is or was a connection with a key, which may be lost by now.
func (p *connPool) has(key connKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	sl := p.slots[key]
	return sl != nil && sl.ready()
}

// opened returns the connection with a key, nil while there is none.
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

// owned returns the connection with a key, opening it first when there is none. It
// counts a call until finish.
func (p *connPool) owned(ctx context.Context, key connKey, own *Conn) (*Conn, error) {
	if key == (connKey{}) {
		if !own.use() {
			return nil, errReplaced
		}
		own.begin()
		return own, nil
	}
	return p.get(ctx, key)
}

// named returns the very connection that a call names, if its caller is of
// those who share it. It counts a call until finish.
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

// releaseIdle gives up a connection that nobody uses.
func (p *connPool) releaseIdle(conn *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sl := p.slots[conn.key]; sl != nil && sl.conn == conn && sl.idle() {
		p.release(conn.key, sl)
	}
}

// endSession gives up the connections of a session that has ended.
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

// retire closes a connection in the background once no call is on it any more: what is
// in flight over HTTP may still get its answer.
func (p *connPool) retire(conn *Conn) {
	p.wg.Go(func() {
		for conn.calls.Load() > 0 && backoff.Sleep(p.life, drainStep) == nil {
		}
		if conn.shared {
			p.mu.Lock()
			p.ending++
			p.mu.Unlock()
			defer p.hasEnded()
		}
		closeConn(conn)
	})
}

// inFlight returns how many calls are in flight.
func (p *connPool) inFlight() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := int64(0)
	if p.own != nil {
		n += p.own.calls.Load()
	}
	for _, sl := range p.slots {
		if sl.conn != nil {
			n += sl.conn.calls.Load()
		}
	}
	return n
}

// stop lets nothing begin any more.
func (p *connPool) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

// close ends every connection but the gateway's own, and waits for every goroutine of
// the pool.
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
