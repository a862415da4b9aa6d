package http1

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// A connection holds one of these buffers as long as an exchange lasts.
const bufferSize = 4 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// conn is a connection. One goroutine at a time uses it.
type conn struct {
	pool  *Pool
	net   net.Conn
	host  string
	since time.Time // it is idle

	buf  *[bufferSize]byte // nil while it is idle
	r, w int               // what was received and not read is buf[r:w]
	rest *body             // of the answer before, while its end has not come; else nil
}

// past is a deadline that ends reads and writes.
var past = time.Unix(1, 0)

// exchange sends a request and returns its answer, whose body goes on with the connection.
// sent is false if nothing of the request has left the machine.
func (c *conn) exchange(r *http.Request, request []byte) (resp *http.Response, sent bool, err error) {
	ctx := r.Context()
	stop := context.AfterFunc(ctx, func() { _ = c.net.SetDeadline(past) })
	n, unsent := c.net.Write(request)
	if unsent == nil || n > 0 { // a server that refuses early says why, and closes
		if resp, err = c.receive(r, stop); err == nil {
			return resp, true, nil
		}
	}
	stop()
	c.net.Close()
	if ended := context.Cause(ctx); ended != nil {
		return nil, n > 0, ended
	}
	return nil, n > 0, cmp.Or(unsent, err)
}

// receive reads the head of an answer.
func (c *conn) receive(r *http.Request, stop func() bool) (*http.Response, error) {
	c.buf = buffers.Get().(*[bufferSize]byte)
	b, end, err := c.readHead()
	if err != nil {
		return nil, err
	}
	h, ok := parseHead(b[:end])
	if !ok {
		c.pool.odd.Store(true)
		return c.receiveOdd(r, b, stop)
	}
	if len(b) <= bufferSize {
		c.r = end
	} else { // the rest of what is in b was received with the end of a long head
		c.r, c.w = 0, copy(c.buf[:], b[end:])
	}
	body := &body{conn: c, stop: stop, ctx: r.Context(), left: h.length, chunked: h.chunked, closes: h.closes}
	if h.length == 0 {
		body.end()
	}
	return &http.Response{
		Status: h.reason, StatusCode: h.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h.header, Body: body, ContentLength: h.length, Request: r,
	}, nil
}

// readHead reads until the end of a head was received. It returns everything that was
// received, and the length of the head.
func (c *conn) readHead() (b []byte, end int, err error) {
	b = c.buf[:]
	for n := 0; ; {
		if n == len(b) {
			if n >= c.pool.head {
				return nil, 0, fmt.Errorf("the response headers exceeded %d bytes", n)
			}
			b = append(b[:n:n], make([]byte, min(n, c.pool.head-n))...)
		}
		got, err := c.net.Read(b[n:])
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
		}
	}
}

// interim is how many interim answers may come before an answer.
const interim = 5

// receiveOdd lets net/http read an answer of which b was received. The connection ends with
// it.
func (c *conn) receiveOdd(r *http.Request, b []byte, stop func() bool) (*http.Response, error) {
	from := bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(b)), c.net))
	for range interim + 1 {
		resp, err := http.ReadResponse(from, r)
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the server switches to another protocol, which nobody has asked for")
		case resp.StatusCode < 100 || resp.StatusCode >= 200:
			resp.Body = &oddBody{ReadCloser: resp.Body, conn: c.net, stop: stop, ctx: r.Context()}
			return resp, nil
		}
	}
	return nil, fmt.Errorf("the server sends more than %d interim answers", interim)
}

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
