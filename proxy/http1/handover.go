package http1

import (
	"net"
	"sync"
)

// handover is the listener of net/http's server: the connections that are not plain.
type handover struct {
	addr  net.Addr
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newHandover() *handover {
	return &handover{conns: make(chan net.Conn), done: make(chan struct{})}
}

// give hands a connection over, with what was received of it. It is false after Close.
func (h *handover) give(c net.Conn, received []byte) bool {
	select {
	case h.conns <- &begunConn{Conn: c, received: received}:
		return true
	case <-h.done:
		return false
	}
}

// Accept implements [net.Listener].
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (h *handover) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr implements [net.Listener].
func (h *handover) Addr() net.Addr { return h.addr }

// begunConn is a connection of which something was received already.
type begunConn struct {
	net.Conn
	received []byte
}

// Read implements [net.Conn].
func (b *begunConn) Read(p []byte) (int, error) {
	if len(b.received) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.received)
	if b.received = b.received[n:]; len(b.received) == 0 {
		b.received = nil
	}
	return n, nil
}

// NetConn returns the connection beneath, like [crypto/tls.Conn.NetConn].
func (b *begunConn) NetConn() net.Conn { return b.Conn }
