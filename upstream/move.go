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

// follow moves the own connection to where the process belongs, each time its link is told to,
// until it has moved, another has replaced it, or it ends.
func (s *Server) follow(conn *Conn, from transport.Moving) {
	for {
		select {
		case <-from.Moved():
		case <-conn.life.Done():
			return
		}
		if s.pool.successor(conn) != nil || s.move(conn, from) {
			return
		}
		from.Stays()
	}
}

// move replaces the own connection by one to where the process belongs now, and tells whether
// it did. Calls in flight end on the old one. The new one is there first, unless the process
// must not run twice.
func (s *Server) move(conn *Conn, from transport.Moving) bool {
	if from.Alone() {
		ctx, cancel := context.WithTimeout(conn.life, takesTime)
		defer cancel()
		takes := from.Takes(ctx)
		if takes {
			s.pool.moveAlone(conn)
		}
		return takes
	}
	next, err := s.open(conn.life, connKey{})
	if err != nil {
		s.log.Debug("the server stays where it is", "err", err)
		return false
	}
	to, ok := next.link.(transport.Moving)
	if !ok || to.At() == from.At() || !s.pool.replaceOwn(conn, next) {
		closeConn(next)
		return false
	}
	return true
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

// Moving tells whether the process of a placed server is about to move to another gateway, as
// far as this one knows. Until it has moved, calls go to where it was.
func (s *Server) Moving() bool {
	own, renewing, stopped := s.pool.current()
	if own == nil {
		return s.spec.Placed && renewing && !stopped // where it was, it ends first
	}
	link, ok := own.link.(transport.Moving)
	return ok && link.Leaving()
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
