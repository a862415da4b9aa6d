package http1

import (
	"context"
	"errors"
	"io"
	"net/http/httputil"
	"sync/atomic"
)

// body is the body of an answer. Read is for one goroutine; Close may be called beside it.
type body struct {
	conn *conn
	ctx  context.Context

	left    int64 // of the body or, if it is chunked, of the current chunk
	chunked bool
	begun   bool      // a chunk was begun
	odd     io.Reader // reads the chunks that are not plain
	err     error     // of every further read
	dropped int       // bytes, after nothing more was wanted

	over atomic.Bool // the connection is idle, or closed

	of *received // that it is a part of
}

// errClosed is the error of reads from a closed body.
var errClosed = errors.New("the body of the answer was closed")

// Read implements [io.Reader].
func (b *body) Read(p []byte) (n int, err error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if b.over.Load() {
		return 0, errClosed
	}
	switch {
	case b.odd != nil:
		if n, err = b.odd.Read(p); errors.Is(err, io.EOF) {
			b.end()
		}
	case b.chunked:
		n, err = b.readChunk(p)
	default:
		n, err = b.read(p)
		if err == nil && b.left == 0 {
			b.end()
			err = io.EOF
		}
	}
	if err != nil {
		b.err = b.why(err)
	}
	return n, b.err
}

// why returns the error of a read: the end of the context comes before what it has caused.
func (b *body) why(err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	closed := !b.close()
	switch cause := context.Cause(b.ctx); {
	case cause != nil:
		return cause
	case closed:
		return errClosed
	}
	return err
}

// read reads what is left of the body or of a chunk.
func (b *body) read(p []byte) (int, error) {
	p = p[:min(int64(len(p)), b.left)]
	n, err := b.conn.read(p)
	b.left -= int64(n)
	if n > 0 {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// read reads into p what was received, else from the connection.
func (c *conn) read(p []byte) (int, error) {
	if c.r < c.w {
		n := copy(p, c.buf[c.r:c.w])
		c.r += n
		return n, nil
	}
	return c.net.Read(p)
}

// end ends the exchange after the whole body. A context that has ended may have set a
// deadline.
func (b *body) end() { b.giveBack(b.conn.cut.Stop()) }

// giveBack ends the exchange after the whole body. The connection can carry the next one if
// it is clean, unless the server has said otherwise, or sent more.
func (b *body) giveBack(clean bool) {
	c := b.conn
	clean = clean && !c.last && c.r == c.w
	b.err = io.EOF
	if !b.over.CompareAndSwap(false, true) {
		return
	}
	c.buf.Free()
	c.buf = nil
	if !clean {
		c.net.Close()
		return
	}
	c.pool.put(c)
}

// close gives the connection up; it is false if that was done before.
func (b *body) close() bool {
	if !b.over.CompareAndSwap(false, true) {
		return false
	}
	b.conn.cut.Stop()
	b.conn.net.Close()
	return true
}

// Close implements [io.Closer]. A body that was not read to its end takes the connection with
// it.
func (b *body) Close() error {
	b.close()
	return nil
}

// readChunk reads from the chunks of a body (RFC 9112 section 7.1).
func (b *body) readChunk(p []byte) (int, error) {
	if b.left > 0 {
		return b.read(p)
	}
	rest, plain, err := b.nextChunk()
	if err != nil {
		return 0, err
	}
	if !plain {
		b.conn.last = true
		b.odd = httputil.NewChunkedReader(rest)
		return 0, nil
	}
	if b.left == 0 {
		b.end()
		return 0, io.EOF
	}
	return b.read(p)
}

// oddBody is the body of an answer that net/http reads.
type oddBody struct {
	io.ReadCloser
	conn *conn
	ctx  context.Context
}

// Read implements [io.Reader].
func (b *oddBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if cause := context.Cause(b.ctx); err != nil && !errors.Is(err, io.EOF) && cause != nil {
		err = cause
	}
	return n, err
}

// Close implements [io.Closer].
func (b *oddBody) Close() error {
	b.conn.cut.Stop()
	return b.conn.net.Close()
}
