package limit

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Conns bounds the connections of a server, in all and of one address. A new
// connection takes the place of one on which no request is under way: of the same
// address where that has as many as it may, else of the one that has been without
// a request for longest. Where there is none, the new one is closed. So neither
// idle connections nor slow beginnings of requests keep others out. It is safe for
// concurrent use.
type Conns struct {
	most, each int
	log        *slog.Logger

	mu      sync.Mutex
	count   int
	of      map[string]*address
	resting *list.List // of *conn without a request under way, oldest first
	warned  time.Time
}

// address is where connections come from.
type address struct {
	count   int
	resting *list.List // as that of Conns
}

// conn is one connection. Its elements are nil while a request is under way.
type conn struct {
	net.Conn
	in      *Conns
	from    string
	of      *address
	gone    bool
	resting *list.Element // in that of Conns
	own     *list.Element // in that of the address
}

// NewConns returns a bound of so many connections, at least two, of which one
// address may have half: see [Network].
func NewConns(most int, log *slog.Logger) *Conns {
	most = max(2, most)
	return &Conns{most: most, each: most / 2, log: log, of: make(map[string]*address), resting: list.New()}
}

// Listener returns a listener of connections that are bounded. TLS comes on top
// of it, so that a handshake is bounded, too.
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

// admit takes a connection in; nil where there is no room.
func (c *Conns) admit(nc net.Conn) *conn {
	in := &conn{Conn: nc, in: c, from: Network(nc.RemoteAddr().String())}
	c.mu.Lock()
	a := c.of[in.from]
	var out *conn
	switch {
	case a != nil && a.count >= c.each:
		out = oldest(a.resting)
	case c.count >= c.most:
		out = oldest(c.resting)
	default:
		out = in // nobody has to go
	}
	if out == nil {
		c.warn(in.from)
		c.mu.Unlock()
		return nil
	}
	if out != in {
		c.drop(out)
		a = c.of[in.from] // which may have been the last of its address
	}
	if a == nil {
		a = &address{resting: list.New()}
		c.of[in.from] = a
	}
	a.count++
	c.count++
	in.of = a
	c.rest(in)
	c.mu.Unlock()
	if out != in {
		out.Conn.Close()
	}
	return in
}

func oldest(l *list.List) *conn {
	if e := l.Front(); e != nil {
		return e.Value.(*conn)
	}
	return nil
}

// warn says in the log, once a minute, that connections are closed; mu is held.
func (c *Conns) warn(from string) {
	if now := time.Now(); now.Sub(c.warned) >= time.Minute {
		c.warned = now
		c.log.Warn("too many connections with requests under way; new ones are closed",
			"limit", "limits.connections", "most", c.most, "of_one_address", c.each, "address", from)
	}
}

// rest notes that no request is under way; mu is held.
func (c *Conns) rest(in *conn) {
	if in.resting == nil && !in.gone {
		in.resting, in.own = c.resting.PushBack(in), in.of.resting.PushBack(in)
	}
}

// wake notes that one is; mu is held.
func (c *Conns) wake(in *conn) {
	if in.resting != nil {
		c.resting.Remove(in.resting)
		in.of.resting.Remove(in.own)
		in.resting, in.own = nil, nil
	}
}

// drop forgets a connection; mu is held.
func (c *Conns) drop(in *conn) {
	if in.gone {
		return
	}
	c.wake(in)
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

// NetConn returns the connection beneath, as [crypto/tls.Conn.NetConn] does.
func (in *conn) NetConn() net.Conn { return in.Conn }

// State is the ConnState of the server of the connections ([http.Server]).
func (c *Conns) State(nc net.Conn, state http.ConnState) {
	in := bounded(nc)
	if in == nil || in.in != c {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive:
		c.wake(in)
	case http.StateIdle:
		c.rest(in)
	case http.StateNew, http.StateHijacked, http.StateClosed: // it rests, is in use, or is dropped by Close
	}
}

// connKey is the key of the bounded connection in the context of its requests.
type connKey struct{}

// ConnContext returns a context from which [Known] and [Unknown] find a connection,
// as the ConnContext of [http.Server] does; ctx where the connection is not bounded.
func ConnContext(ctx context.Context, nc net.Conn) context.Context {
	if in := bounded(nc); in != nil {
		return context.WithValue(ctx, connKey{}, in)
	}
	return ctx
}

// Unknown says of the request of a context that it waits for a body and that its
// sender is not known: its connection makes room for a new one, as one without a
// request does. Where the connection is not bounded it does nothing.
func Unknown(ctx context.Context) { stand(ctx, (*Conns).rest) }

// Known takes back what [Unknown] said.
func Known(ctx context.Context) { stand(ctx, (*Conns).wake) }

func stand(ctx context.Context, how func(*Conns, *conn)) {
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

// Open returns how many connections there are.
func (c *Conns) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Network is what the connections and requests of an address are counted by: the
// address, or of IPv6 the network of 64 bits, which one machine has whole.
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
