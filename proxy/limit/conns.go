package limit

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Conns bounds the connections of a server, in total and of one address. A new
// connection replaces an idle one: of the same address if that is at its limit, else
// the one that is idle for longest. Without an idle connection the new one is closed.
// So neither idle connections nor slow request headers keep others out. It is safe for
// concurrent use.
type Conns struct {
	most, each int
	log        *slog.Logger
	proxies    Proxies // which may have all connections

	mu     sync.Mutex
	count  int
	of     map[string]*address
	idle   queue // those without a request under way
	warned time.Time
}

// address holds the connections of one address.
type address struct {
	count int
	idle  queue // like idle of Conns
}

// conn is one connection.
type conn struct {
	net.Conn
	in   *Conns
	from string
	of   *address
	gone bool
	idle bool // no request is under way; it is in both queues

	links [2]links // in idle of Conns, and of the address
}

// queue holds connections, the oldest first. They link to each other: every request takes its
// connection out and puts it in again, which needs no memory so.
type queue struct {
	which       int // of the links
	first, last *conn
}

type links struct{ before, after *conn }

func (q *queue) push(c *conn) {
	c.links[q.which].before = q.last
	if q.last == nil {
		q.first = c
	} else {
		q.last.links[q.which].after = c
	}
	q.last = c
}

func (q *queue) remove(c *conn) {
	at := &c.links[q.which]
	if at.before == nil {
		q.first = at.after
	} else {
		at.before.links[q.which].after = at.after
	}
	if at.after == nil {
		q.last = at.before
	} else {
		at.after.links[q.which].before = at.before
	}
	*at = links{}
}

// NewConns returns a limit of most connections, at least two. One address (see
// [Network]) may have half of them.
func NewConns(most int, log *slog.Logger) *Conns {
	most = max(2, most)
	return &Conns{most: most, each: most / 2, log: log, of: make(map[string]*address)}
}

// Trust lets reverse proxies have all connections, because they have many clients. It is
// called before Listener.
func (c *Conns) Trust(p Proxies) { c.proxies = p }

// Listener returns a listener with bounded connections. TLS is layered on top, so that
// handshakes are bounded too.
func (c *Conns) Listener(l net.Listener) net.Listener { return &listener{Listener: l, conns: c} }

type listener struct {
	net.Listener
	conns *Conns
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.conns.admit(nc); c != nil {
			return c, nil
		}
		nc.Close()
	}
}

// admit adds a connection; nil without room.
func (c *Conns) admit(nc net.Conn) *conn {
	in := &conn{Conn: nc, in: c, from: Network(nc.RemoteAddr().String())}
	c.mu.Lock()
	a := c.of[in.from]
	var out *conn
	switch {
	case a != nil && a.count >= c.each && !c.proxies.Has(nc.RemoteAddr().String()):
		out = a.idle.first
	case c.count >= c.most:
		out = c.idle.first
	default:
		out = in // there is room
	}
	if out == nil {
		c.warn(in.from)
		c.mu.Unlock()
		return nil
	}
	if out != in {
		c.drop(out)
		a = c.of[in.from] // out may have been the last of its address
	}
	if a == nil {
		a = &address{idle: queue{which: 1}}
		c.of[in.from] = a
	}
	a.count++
	c.count++
	in.of = a
	c.setIdle(in)
	c.mu.Unlock()
	if out != in {
		out.Conn.Close()
	}
	return in
}

// warn logs, once a minute, that connections are closed; mu is held.
func (c *Conns) warn(from string) {
	if now := time.Now(); now.Sub(c.warned) >= time.Minute {
		c.warned = now
		c.log.Warn("too many connections with requests under way; new ones are closed",
			"limit", "limits.connections", "most", c.most, "of_one_address", c.each, "address", from)
	}
}

// setIdle notes that no request is under way; mu is held.
func (c *Conns) setIdle(in *conn) {
	if !in.idle && !in.gone {
		in.idle = true
		c.idle.push(in)
		in.of.idle.push(in)
	}
}

// setActive notes that a request is under way; mu is held.
func (c *Conns) setActive(in *conn) {
	if in.idle {
		c.idle.remove(in)
		in.of.idle.remove(in)
		in.idle = false
	}
}

// drop forgets a connection; mu is held.
func (c *Conns) drop(in *conn) {
	if in.gone {
		return
	}
	c.setActive(in)
	in.gone = true
	c.count--
	if in.of.count--; in.of.count == 0 {
		delete(c.of, in.from)
	}
}

// Close implements [net.Conn].
func (in *conn) Close() error {
	in.in.mu.Lock()
	in.in.drop(in)
	in.in.mu.Unlock()
	return in.Conn.Close()
}

// NetConn returns the underlying connection, like [crypto/tls.Conn.NetConn].
func (in *conn) NetConn() net.Conn { return in.Conn }

// Plain returns the connection that carries the same bytes, for who closes it here.
func (in *conn) Plain() net.Conn { return in.Conn }

// State is the ConnState hook of the [http.Server].
func (c *Conns) State(nc net.Conn, state http.ConnState) {
	in := bounded(nc)
	if in == nil || in.in != c {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive:
		c.setActive(in)
	case http.StateIdle:
		c.setIdle(in)
	case http.StateNew, http.StateHijacked, http.StateClosed: // idle, in use elsewhere, or dropped by Close
	}
}

// connKey is the context key of the bounded connection.
type connKey struct{}

// ConnContext is the ConnContext hook of the [http.Server]. It lets [Known] and
// [Unknown] find the connection. It returns ctx where the connection is not bounded.
func ConnContext(ctx context.Context, nc net.Conn) context.Context {
	if in := bounded(nc); in != nil {
		return context.WithValue(ctx, connKey{}, in)
	}
	return ctx
}

// Unknown marks the request of a context as one that waits for a body from an
// unauthenticated sender. Its connection then makes room like an idle one. Where the
// connection is not bounded it does nothing.
func Unknown(ctx context.Context) { mark(ctx, (*Conns).setIdle) }

// Known reverts [Unknown].
func Known(ctx context.Context) { mark(ctx, (*Conns).setActive) }

func mark(ctx context.Context, how func(*Conns, *conn)) {
	if in, ok := ctx.Value(connKey{}).(*conn); ok {
		in.in.mu.Lock()
		how(in.in, in)
		in.in.mu.Unlock()
	}
}

// bounded finds the bounded connection beneath another one.
func bounded(nc net.Conn) *conn {
	for nc != nil {
		if in, ok := nc.(*conn); ok {
			return in
		}
		over, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = over.NetConn()
	}
	return nil
}

// Open returns the number of connections.
func (c *Conns) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Network is the key by which connections and requests of an address are counted: the
// address, or the /64 network for IPv6, because one machine has all of that.
func Network(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Is4() {
		return host
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		if prefix, err := ip.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return ip.String()
}
