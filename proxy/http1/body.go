package http1

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// body is the body of a request. Its zero value is one without bytes. Another goroutine than the
// handler's may read it.
type body struct {
	mu   sync.Mutex
	conn *conn // nil when the handler has returned
	left int64 // not read
}

// begin makes it the body of a request of which the head was read.
func (b *body) begin(c *conn, length int64) {
	b.conn, b.left = c, length
	if int64(c.w-c.r) < length {
		c.readUntil(time.Now().Add(c.s.http.ReadTimeout), 0)
	}
}

// Read implements [io.Reader]. It returns [io.EOF] with the last bytes.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.conn == nil:
		return 0, http.ErrBodyReadAfterClose
	case b.left == 0:
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.receive(p)
	b.left -= int64(n)
	switch {
	case b.left == 0:
		b.conn.gone.bodyEnds(b)
		return n, io.EOF
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		b.conn.gone.lose(b)
	}
	return n, err
}

// receive reads what was received with the head, and then from the connection; mu is held.
func (b *body) receive(p []byte) (int, error) {
	c := b.conn
	if c.buf == nil {
		return c.direct.Read(p)
	}
	n := copy(p, c.buf[c.r:c.w])
	c.r += n
	c.empty()
	return n, nil
}

// Close implements [io.Closer]. Who does not read the body to its end ends the connection
// after the response.
func (b *body) Close() error { return nil }

// arrived tells whether nothing of it is still to come.
func (b *body) arrived() bool {
	if !b.mu.TryLock() {
		return false
	}
	defer b.mu.Unlock()
	return b.left == 0 || b.conn != nil && b.conn.buf != nil && int64(b.conn.w-b.conn.r) >= b.left
}

// finish ends the body with its handler, and skips the rest if it has arrived. A read that still
// waits ends by its deadline.
func (b *body) finish() {
	if !b.mu.TryLock() {
		if c := b.conn; c != nil { // set once, before the handler
			_ = c.net.SetReadDeadline(past)
			c.readBy = noDeadline
		}
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	if c := b.conn; c != nil && c.buf != nil && int64(c.w-c.r) >= b.left {
		c.r += int(b.left)
		b.left = 0
	}
	b.conn = nil
}
