package http1

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// restTime is how long the end of an answer may take after nothing more was wanted of it.
	restTime = time.Second
	// restBytes is how much may come until the end.
	restBytes = 4 << 10
)

// Finish gives back the body of an answer of which nothing more is wanted, though its end may
// not have come yet: the end of the context does not cut it any more. Its connection is used
// again once the end has come. It is false if the body has to be read to its end, or closed,
// by the caller. It does not wait.
func Finish(from io.ReadCloser) bool {
	switch b := from.(type) {
	case *body:
		b.finish()
		return true
	case *detachedBody:
		b.stop()
	}
	return false
}

// finish is Finish for a body of this package. Only the goroutine that reads it calls it.
func (b *body) finish() {
	if errors.Is(b.err, io.EOF) {
		return
	}
	if b.err != nil || b.odd != nil || b.conn.last || !b.conn.cut.Stop() {
		b.close()
		return
	}
	switch b.settle(nil) {
	case settled:
		b.giveBack(true)
	case waiting:
		if b.over.CompareAndSwap(false, true) {
			b.ctx, b.conn.rest = nil, b
			b.conn.pool.put(b.conn)
		}
	default:
		b.close()
	}
}

// settling is how far the rest of an answer has come.
type settling uint8

const (
	broken  settling = iota // it is no rest of an answer, or too much
	waiting                 // its end has not come
	settled                 // its end has come, and nothing behind it
)

// settle drops what has come of the rest of an answer. more receives without waiting, and
// tells whether something came; nil receives nothing.
func (b *body) settle(more func() bool) settling {
	for {
		if b.left > 0 {
			n := int(min(b.left, int64(b.conn.w-b.conn.r)))
			b.conn.r += n
			b.left -= int64(n)
			b.dropped += n
		}
		done := b.left == 0 && !b.chunked
		if b.left == 0 && b.chunked {
			parsed, plain := b.parseChunk()
			if !parsed && !plain {
				return broken
			}
			if parsed && b.left > 0 {
				continue
			}
			done = parsed
		}
		switch {
		case done && b.conn.r < b.conn.w, b.dropped > restBytes:
			return broken
		case done:
			return settled
		case more == nil || !more():
			return waiting
		}
	}
}

// settle tells whether an idle connection can be used after the answer before, of which the
// end had not come.
func (c *conn) settle() settling {
	state := c.rest.settle(c.receiveWithoutWaiting)
	switch {
	case state == settled:
		c.buf.Free()
		c.buf, c.rest = nil, nil
	case state == waiting && time.Since(c.since) > restTime:
		return broken
	}
	return state
}

// receiveWithoutWaiting receives behind what was not read.
func (c *conn) receiveWithoutWaiting() bool {
	if c.r > 0 {
		c.r, c.w = 0, copy(c.buf[:], c.unread())
	}
	n := readNow(c.net, c.buf[c.w:])
	c.w += n
	return n > 0
}

// detach sends a request by net/http with a context that [Finish] separates from that of the
// request, whose end would close the connection.
func (p *Pool) detach(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	stop := context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })
	resp, err := p.other.RoundTrip(r.WithContext(ctx))
	if err != nil {
		stop()
		cancel(nil)
		return nil, err
	}
	resp.Request = r
	resp.Body = &detachedBody{resp.Body, stop, cancel}
	return resp, nil
}

// detachedBody is the body of an answer that net/http reads.
type detachedBody struct {
	io.ReadCloser
	stop   func() bool
	cancel context.CancelCauseFunc
}

// Close implements [io.Closer].
func (b *detachedBody) Close() error {
	defer b.cancel(nil)
	b.stop()
	return b.ReadCloser.Close()
}
