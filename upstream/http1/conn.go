package http1

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/internal/idleread"
)

// conn is a connection. One goroutine at a time uses it.
type conn struct {
	pool  *Pool
	net   net.Conn
	host  string
	since time.Time // it is idle

	cut       cancel.Watch // over the context of the exchange, whose end interrupts
	interrupt func()       // ends reads and writes
	from      *idleread.Reader
	buf       *idleread.Buffer // from the first byte of an answer to its end; else nil
	r, w      int              // what was received and not read is buf[r:w]
	rest      *body            // of the answer before, while its end has not come; else nil
	last      bool             // it carries no further exchange
}

// past is a deadline that ends reads and writes.
var past = time.Unix(1, 0)

// send writes a request. The end of its context ends reads and writes until cut is stopped.
func (c *conn) send(ctx context.Context, request []byte) sent {
	s := sent{conn: c}
	c.cut.Over(ctx, c.interrupt)
	if s.why = ctx.Err(); s.why == nil {
		s.n, s.why = c.net.Write(request)
	}
	return s
}

// giveUp ends the connection of an exchange that has failed.
func (s *sent) giveUp() {
	s.conn.cut.Stop()
	s.conn.net.Close()
}

// answer returns the answer to a request. Its body goes on with the connection.
func (c *conn) answer(q *asked, s *sent) (resp *http.Response, err error) {
	c.last = s.why != nil
	if s.why == nil || s.n > 0 { // a server that refuses early says why, and closes
		if resp, err = c.receive(q); err == nil {
			return resp, nil
		}
	}
	s.giveUp()
	return nil, cmp.Or(context.Cause(q.ctx), s.why, err)
}

// receive reads the head of an answer.
func (c *conn) receive(q *asked) (*http.Response, error) {
	b, end, err := c.readHead()
	if err != nil {
		return nil, err
	}
	return c.received(q, b, end)
}

// received makes an answer of what was received, in which its head has an end.
func (c *conn) received(q *asked, b []byte, end int) (*http.Response, error) {
	a := spare.Get().(*received)
	h, ok := parseHead(b[:end], &a.fields)
	if !ok || len(b)-end > idleread.Size { // more than there is room for came with a long head
		c.pool.odd.CompareAndSwap(false, !ok)
		return c.receiveOdd(q, b)
	}
	if len(b) <= idleread.Size {
		c.r = end
	} else {
		c.r, c.w = 0, copy(c.buf[:], b[end:])
	}
	c.last = c.last || h.closes
	a.body.conn, a.body.ctx, a.body.left, a.body.chunked = c, q.ctx, max(0, h.length), h.chunked
	if h.length == 0 {
		a.body.end()
	}
	a.response = http.Response{
		Status: h.reason, StatusCode: h.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h.header, Body: &a.body, ContentLength: h.length, Request: q.request(),
	}
	return &a.response, nil
}

// readHead reads until the end of a head was received. It returns everything that was
// received, and the length of the head.
func (c *conn) readHead() (b []byte, end int, err error) {
	var got int
	if c.buf, got, err = c.from.Next(); c.buf == nil {
		return nil, 0, err
	}
	b = c.buf[:]
	for n := 0; ; {
		end = headEnd(b[:n+got], n)
		n += got
		switch {
		case end > 0:
			c.r, c.w = 0, n
			return b[:n], end, nil
		case err != nil && n > 0 && errors.Is(err, io.EOF):
			return nil, 0, io.ErrUnexpectedEOF
		case err != nil:
			return nil, 0, err
		case n == len(b) && n >= c.pool.head:
			return nil, 0, tooLong(n)
		case n == len(b):
			b = append(b[:n:n], make([]byte, min(n, c.pool.head-n))...)
		}
		got, err = c.net.Read(b[n:])
	}
}

// interim is how many interim answers may come before an answer.
const interim = 5

// receiveOdd lets net/http read an answer of which b was received. The connection ends with
// it.
func (c *conn) receiveOdd(q *asked, b []byte) (*http.Response, error) {
	bounded := &boundedReader{from: io.MultiReader(bytes.NewReader(bytes.Clone(b)), c.net)}
	from := bufio.NewReader(bounded)
	for range interim + 1 {
		bounded.left, bounded.most = c.pool.head+from.Size(), c.pool.head
		resp, err := http.ReadResponse(from, q.request())
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the server switches to another protocol, which nobody has asked for")
		case resp.StatusCode < 100 || resp.StatusCode >= 200:
			bounded.left = math.MaxInt
			resp.Body = &oddBody{ReadCloser: resp.Body, conn: c, ctx: q.ctx}
			return resp, nil
		}
	}
	return nil, fmt.Errorf("the server sends more than %d interim answers", interim)
}

// boundedReader reads at most left bytes.
type boundedReader struct {
	from       io.Reader
	left, most int
}

// Read implements [io.Reader].
func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, tooLong(b.most)
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	if b.left != math.MaxInt {
		b.left -= n
	}
	return n, err
}

func tooLong(head int) error { return fmt.Errorf("the response headers exceeded %d bytes", head) }

// unread returns what was received and not read.
func (c *conn) unread() []byte { return c.buf[c.r:c.w] }

// fill receives more behind what was not read, which is less than the buffer has room for.
func (c *conn) fill() error {
	if c.r > 0 {
		c.r, c.w = 0, copy(c.buf[:], c.unread())
	}
	n, err := c.net.Read(c.buf[c.w:])
	c.w += n
	switch {
	case n > 0:
		return nil
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// remaining reads what was not read, without the end of the chunk before, and what follows.
func (c *conn) remaining(begun bool) io.Reader {
	b := bytes.Clone(c.unread())
	if begun {
		b = b[len("\r\n"):]
	}
	return io.MultiReader(bytes.NewReader(b), c.net)
}
