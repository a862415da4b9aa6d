package http1

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/internal/idleread"
)

// conn is the connection of a client. The goroutine of serve uses it, handlers included, but for
// what is said.
type conn struct {
	s      *Server
	net    net.Conn
	direct net.Conn // what carries the bytes of net
	remote string
	ctx    context.Context // of its requests

	from *idleread.Reader
	buf  *idleread.Buffer // nil while it holds nothing
	r, w int              // what was received and not read is buf[r:w]

	readBy, writeBy time.Time // the deadlines that are set; zero for one that is not known

	// target is that of the last request, and to what it means.
	target string
	to     *url.URL

	emptyLines int // how many bytes of them may still come before the next request

	gone watch
	// idle is set until the head of a request is there. Who resets it has the connection.
	idle atomic.Bool
	over bool // it is not the server's any more
}

// plainConn is a connection whose bytes another one carries as they are, unlike those of one
// with TLS, which has a NetConn as well.
type plainConn interface{ Plain() net.Conn }

func newConn(s *Server, base context.Context, accepted net.Conn) *conn {
	c := &conn{s: s, net: accepted, direct: accepted, remote: accepted.RemoteAddr().String()}
	if over, ok := accepted.(plainConn); ok {
		c.direct = over.Plain()
	}
	c.from = idleread.New(c.direct)
	c.ctx = context.WithValue(base, http.LocalAddrContextKey, accepted.LocalAddr())
	if s.http.ConnContext != nil {
		c.ctx = s.http.ConnContext(c.ctx, accepted)
	}
	c.gone.init(c)
	return c
}

// errOdd means that what a client sends is for net/http.
var errOdd = errors.New("not plain")

// serve serves requests until the connection ends.
func (c *conn) serve() {
	defer c.end()
	c.setState(http.StateNew)
	within := c.s.http.ReadHeaderTimeout
	for c.await(within) {
		if !c.skipEmptyLines() {
			continue
		}
		h, err := c.readHead()
		switch {
		case errors.Is(err, errOdd):
			c.handOver()
			return
		case err != nil || !c.idle.CompareAndSwap(true, false):
			return
		}
		c.setState(http.StateActive)
		if !c.serveRequest(&h) {
			return
		}
		c.setState(http.StateIdle)
		within = c.s.http.IdleTimeout
	}
}

// end closes the connection, unless somebody has taken it, and logs the panic of a handler.
func (c *conn) end() {
	if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // the value of a panic
		c.s.logf("http: panic serving %v: %v\n%s", c.remote, p, debug.Stack())
	}
	if !c.over {
		c.net.Close()
		c.setState(http.StateClosed)
	}
	if c.buf != nil {
		c.buf.Free()
		c.buf = nil
	}
	c.s.untrack(c)
}

func (c *conn) setState(state http.ConnState) {
	if c.s.http.ConnState != nil {
		c.s.http.ConnState(c.net, state)
	}
}

// await waits for the first bytes of a request. It is false if none come.
func (c *conn) await(within time.Duration) bool {
	c.idle.Store(true)
	if c.s.closing.Load() {
		return false
	}
	if c.buf != nil { // they have come with the request before
		return true
	}
	c.readUntil(time.Now().Add(within), within/8)
	var err error
	c.r = 0
	c.buf, c.w, err = c.from.Next()
	return err == nil
}

// maxEmptyLines is how many bytes of empty lines may follow the body of a request: some clients
// end it with one (RFC 9112, section 2.2).
const maxEmptyLines = 4

// skipEmptyLines skips what was received of empty lines. It tells whether there is more.
func (c *conn) skipEmptyLines() bool {
	for ; c.emptyLines > 0 && c.r < c.w && (c.buf[c.r] == '\r' || c.buf[c.r] == '\n'); c.r++ {
		c.emptyLines--
	}
	c.empty()
	return c.buf != nil
}

// readUntil sets the deadline of reads, unless the one that is set is earlier by no more than
// slack: to set it takes longer than to look.
func (c *conn) readUntil(by time.Time, slack time.Duration) {
	if c.readBy.After(by) || c.readBy.Before(by.Add(-slack)) {
		c.readBy = by
		_ = c.net.SetReadDeadline(by) // a connection that fails it fails the read
	}
}

// readHead reads a head, to its end.
func (c *conn) readHead() (head, error) {
	from := 0
	for waits := false; ; waits = true {
		unread := c.buf[c.r:c.w]
		end, next, ok := headEnd(unread, from)
		switch {
		case !ok:
			return head{}, errOdd
		case end > 0:
			h, plain := parse(unread[:end])
			if !plain || !c.find(h.target) {
				return head{}, errOdd
			}
			c.r += end
			return h, nil
		case len(unread) == idleread.Size:
			return head{}, errOdd // too long for here
		}
		from = next
		if !waits {
			c.readUntil(time.Now().Add(c.s.http.ReadHeaderTimeout), 0)
		}
		if err := c.fill(); err != nil {
			return head{}, err
		}
	}
}

// find finds out what a target means, and tells whether net/http would know.
func (c *conn) find(target string) bool {
	if c.to != nil && c.target == target {
		return true
	}
	to, err := url.ParseRequestURI(target)
	if err != nil {
		return false
	}
	c.target, c.to = strings.Clone(target), to
	return true
}

// fill receives more behind what was not read, which is less than the buffer has room for.
func (c *conn) fill() error {
	if c.r > 0 {
		c.r, c.w = 0, copy(c.buf[:], c.buf[c.r:c.w])
	}
	n, err := c.direct.Read(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	return err
}

// empty gives the buffer back when everything in it was read.
func (c *conn) empty() {
	if c.buf != nil && c.r == c.w {
		c.buf.Free()
		c.buf = nil
	}
}

// takeEarly puts what the watch has read behind what was received before.
func (c *conn) takeEarly() {
	first, has := c.gone.early()
	if !has {
		return
	}
	if c.buf == nil {
		c.buf, c.r, c.w = idleread.Take(), 0, 0
	} else if c.w == idleread.Size {
		c.r, c.w = 0, copy(c.buf[:], c.buf[c.r:c.w])
	}
	c.buf[c.w] = first
	c.w++
}

// handOver gives the connection to net/http's server.
func (c *conn) handOver() {
	received := append([]byte(nil), c.buf[c.r:c.w]...)
	if c.idle.CompareAndSwap(true, false) && c.net.SetDeadline(time.Time{}) == nil {
		c.over = c.s.odd.give(c.net, received)
	}
}

// exchange is what a request and its response need for themselves, in one piece of memory.
type exchange struct {
	ctx      cancel.Context
	body     body
	response response
}

// serveRequest has the handler serve a request. It tells whether the connection carries
// another one.
func (c *conn) serveRequest(h *head) bool {
	x, m := new(exchange), h.memory
	x.ctx.Begin(c.ctx)
	r := m.begin(&x.ctx, c, h)
	c.emptyLines = 0
	if h.method == http.MethodPost {
		c.emptyLines = maxEmptyLines
	}
	if h.length > 0 {
		x.body.begin(c, h.length)
		r.Body = &x.body
	} else {
		c.empty()
	}
	x.response.conn, x.response.body, x.response.closes = c, &x.body, h.closes
	c.gone.begin(&x.body, &x.ctx)
	c.handle(x, r)
	if c.over {
		return false
	}
	keep := x.response.finish()
	if x.response.released {
		m.release()
	}
	c.empty()
	c.takeEarly()
	if x.body.left > 0 {
		c.linger()
	}
	return keep
}

// handle runs the handler, after which the request has ended.
func (c *conn) handle(x *exchange, r *http.Request) {
	defer func() { // also of a panic
		x.ctx.Cancel(nil)
		c.gone.end()
		x.body.finish()
	}()
	c.s.http.Handler.ServeHTTP(&x.response, r)
}

const (
	// lingerTime is how long, and lingerBytes how far, the rest of a body is read that nobody
	// wants. If the connection was closed at once, the system of the client could drop
	// the response.
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

// linger ends the connection in the direction of the client, and reads what it still sends.
func (c *conn) linger() {
	half, ok := c.direct.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.net.SetReadDeadline(time.Now().Add(lingerTime)) // a connection that fails it fails the read
	b := idleread.Take()
	defer b.Free()
	for left := lingerBytes; left > 0; {
		n, err := c.direct.Read(b[:])
		if err != nil {
			return
		}
		left -= n
	}
}

// noDeadline is a deadline that was not set by the server.
var noDeadline time.Time

// past is a deadline that ends reads.
var past = time.Unix(1, 0)
