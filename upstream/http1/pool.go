package http1

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/background"
	"github.com/toolgate/toolgate/internal/idleread"
)

// maxBody is the largest body of a request that is sent here. The buffers of the system take
// as much, so a server that answers before it has read the request does not hold up both
// sides.
const maxBody = 64 << 10

// Pool keeps the connections to one server. It implements [http.RoundTripper] and is safe for
// concurrent use. The context of a request bounds everything about it, until the body of the
// answer is closed or read to its end.
type Pool struct {
	other *http.Transport
	most  int           // idle connections
	rest  time.Duration // after which an idle connection is closed
	head  int           // bytes of the head of an answer

	// Patient is for servers whose answers take long. The stack of a goroutine that waits for
	// one does not grow by sending the request, which is done on another one. The wait holds
	// nothing of a request that was sent but its context and its address, so the Request of
	// the answer has only these. It is set before the first request.
	Patient bool

	// odd is set once a server has sent what only net/http reads. It gets all further
	// requests.
	odd atomic.Bool

	mu     sync.Mutex
	idle   []*conn // the one that was used last is the last one
	sweep  *time.Timer
	due    time.Time // when sweep fires; zero while it does not
	direct string    // the host that was found to need no proxy
	// closing is set when nothing is to stay idle, until the next request.
	closing bool
}

// NewPool returns a pool with the dialer, proxies and limits of a transport, which takes the
// requests that do not fit. The transport needs all of them to be set. Where it would have
// answers compressed, and decompress them, the pool asks for answers that are not.
func NewPool(other *http.Transport) *Pool {
	return &Pool{other: other, most: other.MaxIdleConnsPerHost, rest: other.IdleConnTimeout, head: int(other.MaxResponseHeaderBytes)}
}

// RoundTrip implements [http.RoundTripper].
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.odd.Load() || !plain(r) || !p.isDirect(r) {
		return p.detach(r)
	}
	s, err := p.start(r)
	if err != nil {
		return nil, err
	}
	q := asked{ctx: r.Context(), to: r.URL}
	if !p.Patient {
		q.whole = r
	}
	return s.conn.answer(&q, &s)
}

// start sends a request for which plain holds, and closes its body.
func (p *Pool) start(r *http.Request) (sent, error) {
	defer r.Body.Close()
	switch {
	case r.Context().Err() != nil:
		return sent{}, context.Cause(r.Context())
	case p.Patient:
		return p.sendApart(r)
	}
	return p.send(r)
}

// asked is what the wait for an answer knows of its request.
type asked struct {
	ctx   context.Context
	to    *url.URL
	whole *http.Request // nil where only the others are known
}

// request returns the request as an answer has it.
func (q *asked) request() *http.Request {
	if q.whole != nil {
		return q.whole
	}
	bare := &http.Request{Method: http.MethodPost, URL: q.to, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: q.to.Host}
	return bare.WithContext(q.ctx)
}

// sent is a request that was sent, at least in part.
type sent struct {
	conn *conn
	n    int   // bytes that were written
	why  error // the rest was not; nil where all of it was
}

func (p *Pool) sendApart(r *http.Request) (s sent, err error) {
	err = background.Apart(func() (err error) { s, err = p.send(r); return err })
	return s, err
}

// send sends a request on an idle connection or on a new one. The error says why there is none,
// or no request.
func (p *Pool) send(r *http.Request) (sent, error) {
	c, used, err := p.take(r.Context(), r.URL)
	if err != nil {
		return sent{}, err
	}
	b := requests.Get().(*[]byte)
	defer requests.Put(b) // before the answer, which may take long
	if *b, err = appendRequest((*b)[:0], r, !p.other.DisableCompression); err != nil {
		c.net.Close()
		return sent{}, err
	}
	s := c.send(r.Context(), *b)
	if s.why == nil || s.n > 0 || !used || r.Context().Err() != nil {
		return s, nil
	}
	// The server closed the connection after it was looked at. It has seen nothing.
	s.giveUp()
	if c, err = p.dial(r.Context(), r.URL); err != nil {
		return sent{}, err
	}
	return c.send(r.Context(), *b), nil
}

// requests are buffers for whole requests.
var requests = sync.Pool{New: func() any { return new([]byte) }}

// plain tells whether a request has the form that is sent here.
func plain(r *http.Request) bool {
	return checked && r.URL.Scheme == "http" && r.Method == http.MethodPost && r.Body != nil &&
		r.ContentLength > 0 && r.ContentLength <= maxBody && len(r.TransferEncoding) == 0 && len(r.Trailer) == 0 &&
		!r.Close && isTarget(r.URL) && isHost(r.Host) && isHost(r.URL.Host) && areFields(r.Header)
}

// isDirect tells whether a request needs no proxy.
func (p *Pool) isDirect(r *http.Request) bool {
	if p.other.Proxy == nil {
		return true
	}
	p.mu.Lock()
	known := p.direct == r.URL.Host
	p.mu.Unlock()
	if known {
		return true
	}
	if by, err := p.other.Proxy(r); by != nil || err != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.direct = r.URL.Host
	return true
}

// take returns an idle connection, which was used before, or a new one.
func (p *Pool) take(ctx context.Context, to *url.URL) (c *conn, used bool, err error) {
	for {
		if c = p.pop(to.Host); c == nil {
			c, err = p.dial(ctx, to)
			return c, false, err
		}
		if isOpen(c.net) {
			return c, true, nil
		}
		c.net.Close()
	}
}

// dial opens a connection.
func (p *Pool) dial(ctx context.Context, to *url.URL) (*conn, error) {
	address := to.Host
	if to.Port() == "" {
		address = net.JoinHostPort(to.Hostname(), "80")
	}
	dialed, err := p.other.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &conn{pool: p, net: dialed, host: to.Host, from: idleread.New(dialed)}
	c.interrupt = func() { _ = dialed.SetDeadline(past) }
	return c, nil
}

// pop takes the idle connection to a host that was used last and can carry something; nil if
// there is none.
func (p *Pool) pop(host string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = false
	for i, c := range slices.Backward(p.idle) {
		if c.host != host {
			continue
		}
		state := settled
		if c.rest != nil {
			state = c.settle()
		}
		if state == waiting {
			continue
		}
		p.idle = slices.Delete(p.idle, i, i+1)
		if state == settled {
			return c
		}
		c.net.Close()
	}
	return nil
}

// put keeps a connection whose exchange is over.
func (p *Pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || len(p.idle) >= p.most {
		c.net.Close()
		return
	}
	c.since = time.Now()
	p.idle = append(p.idle, c)
	p.sweepAt(c.ends())
}

// ends is when an idle connection is closed.
func (c *conn) ends() time.Time {
	if c.rest != nil {
		return c.since.Add(restTime)
	}
	return c.since.Add(c.pool.rest)
}

// sweepAt lets sweep fire at a time at the latest; mu is held.
func (p *Pool) sweepAt(at time.Time) {
	switch {
	case !p.due.IsZero() && !at.Before(p.due):
		return
	case p.sweep == nil:
		p.sweep = time.AfterFunc(time.Until(at), p.closeOld)
	default:
		p.sweep.Reset(time.Until(at))
	}
	p.due = at
}

// closeOld closes the connections that were idle for too long, and those of which the end of
// the last answer has not come in time.
func (p *Pool) closeOld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = time.Time{}
	now := time.Now()
	p.idle = slices.DeleteFunc(p.idle, func(c *conn) bool {
		if c.rest != nil && c.settle() == broken || !now.Before(c.ends()) {
			c.net.Close()
			return true
		}
		return false
	})
	for _, c := range p.idle {
		p.sweepAt(c.ends())
	}
}

// CloseIdleConnections closes the connections that carry nothing, and those that are under
// way when their exchanges end, unless there is another request before.
func (p *Pool) CloseIdleConnections() {
	p.other.CloseIdleConnections()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		c.net.Close()
	}
	p.idle, p.closing = nil, true
}
