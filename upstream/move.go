package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/toolgate/toolgate/upstream/transport"
)

// aloneTime bounds the wait for calls on a connection that has to end before its process can
// run elsewhere.
const aloneTime = 20 * time.Second

// takesTime bounds the question whether another gateway would run a server.
const takesTime = 5 * time.Second

// renewable tells whether another connection replaces a lost one at once.
func renewable(err error) bool {
	return errors.Is(err, transport.ErrSessionLost) || errors.Is(err, transport.ErrMoved)
}

// move replaces the own connection by one to where the process belongs now. Calls in flight
// end on the old one. The new one is there first, unless the process must not run twice.
func (s *Server) move(conn *Conn) {
	from, ok := conn.link.(transport.Moving)
	if !ok {
		return
	}
	if !s.moving.CompareAndSwap(false, true) {
		return
	}
	defer s.moving.Store(false)
	if from.Alone() {
		ctx, cancel := context.WithTimeout(conn.life, takesTime)
		defer cancel()
		if from.Takes(ctx) {
			s.pool.moveAlone(conn)
		}
		return
	}
	next, err := s.open(conn.life, connKey{})
	if err != nil {
		s.log.Debug("the server stays where it is", "err", err)
		return
	}
	to, ok := next.link.(transport.Moving)
	if !ok || to.At() == from.At() || !s.pool.replaceOwn(conn, next) {
		closeConn(next)
	}
}

// At names the gateway where the process of a placed server runs; empty while there is none,
// and for other servers.
func (s *Server) At() string {
	own, _, _ := s.pool.current()
	if own == nil {
		return ""
	}
	if link, ok := own.link.(transport.Moving); ok {
		return link.At()
	}
	return ""
}

// replaceOwn makes a connection the own one in place of another, and tells whether it did.
func (p *connPool) replaceOwn(conn, next *Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own != conn || p.stopped {
		return false
	}
	conn.usage.Store(discarded) // calls begin on the next one
	next.own.Store(true)
	p.leaving[conn] = struct{}{} // until it is retired
	p.own = next
	signal(p.replaced)
	return true
}

// moveAlone ends the own connection when its calls have ended. Calls that begin meanwhile
// wait for its successor.
func (p *connPool) moveAlone(conn *Conn) {
	p.mu.Lock()
	if p.own != conn || p.stopped {
		p.mu.Unlock()
		return
	}
	conn.usage.Store(discarded)
	p.own, p.renewing = nil, true
	p.leaving[conn] = struct{}{}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(p.life, aloneTime)
	defer cancel()
	p.awaitCalls(ctx, conn)
	conn.link.Fail(transport.ErrMoved)
}
