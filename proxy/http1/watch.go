package http1

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/toolgate/toolgate/internal/cancel"
)

// watchAfter is how long a request is served before anybody looks whether its client is still
// there. Most are served by then.
const watchAfter = 10 * time.Millisecond

// watch cancels the request under way when its client closes the connection.
type watch struct {
	conn  *conn
	timer *time.Timer

	// socket is that of the connection, where the poller of the server can wait for it; nil before
	// the first time. Who holds mu uses it.
	socket syscall.RawConn

	mu      sync.Mutex
	changed sync.Cond
	body    *body           // of the request under way; nil while there is none
	ended   bool            // it was read to its end
	ctx     *cancel.Context // that of the request
	number  uint64          // by which the poller waits; 0 while it does not
	reading bool            // a goroutine reads from the connection
	ending  bool            // it is to end
	has     bool            // it has sent first, which belongs to its next request
	first   byte
}

func (w *watch) init(c *conn) {
	w.conn = c
	w.changed.L = &w.mu
}

// begin watches a request. While its body comes, who reads that sees the client go.
func (w *watch) begin(b *body, ctx *cancel.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.body, w.ctx, w.ended = b, ctx, b.left == 0
	if w.ended {
		w.soon()
	}
}

// bodyEnds watches from the end of a body on.
func (w *watch) bodyEnds(b *body) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.body == b {
		w.ended = true
		w.soon()
	}
}

// soon looks in a while; mu is held.
func (w *watch) soon() {
	if w.timer == nil {
		w.timer = time.AfterFunc(watchAfter, w.look)
	} else {
		w.timer.Reset(watchAfter)
	}
}

// look begins to wait until the client sends something or goes. It runs in a goroutine of the
// timer, which waits where the poller cannot, and ends with the request at the latest. The timer
// of a request may come as late as in the next one, whose body is nothing to take bytes from.
func (w *watch) look() {
	w.mu.Lock()
	wanted := w.body != nil && w.ended && w.number == 0 && !w.reading && !w.has
	if wanted {
		w.number = w.conn.s.poller.add(w)
	}
	reads := wanted && w.number == 0
	if reads {
		w.conn.readBy = noDeadline
		_ = w.conn.net.SetReadDeadline(time.Time{}) // a connection that fails it fails the read
		w.reading = true
	}
	w.mu.Unlock()
	if reads {
		w.read()
	}
}

// read waits by reading.
func (w *watch) read() {
	var b [1]byte
	n, err := w.conn.direct.Read(b[:])
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reading = false
	if n == 1 || !w.ending || !errors.Is(err, os.ErrDeadlineExceeded) {
		w.came(b[0], n)
	}
	w.changed.Broadcast()
}

// came takes the byte that the client has sent; without one it has gone. mu is held.
func (w *watch) came(first byte, n int) {
	if n == 1 {
		w.first, w.has = first, true
	} else if w.ctx != nil {
		w.ctx.Cancel(nil)
	}
}

// ready looks what the poller has seen, unless that was for an earlier request.
func (w *watch) ready(number uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.number != number {
		return
	}
	first, n, waits := w.conn.s.poller.read(w)
	if !waits {
		w.leave()
		w.came(first, n)
	}
}

// leave takes the connection from the poller; mu is held.
func (w *watch) leave() {
	w.conn.s.poller.remove(w)
	w.number = 0
}

// closed cancels the request whose connection the server has closed, of which the poller
// sees nothing.
func (w *watch) closed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.number != 0 {
		w.leave()
		w.came(0, 0)
	}
}

// end stops watching, and waits for that.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.body, w.ctx = nil, nil
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.number != 0 {
		w.leave()
	}
	if w.reading {
		w.ending = true
		w.conn.readBy = noDeadline
		_ = w.conn.net.SetReadDeadline(past)
		for w.reading {
			w.changed.Wait()
		}
		w.ending = false
	}
}

// lose cancels a request whose connection has failed.
func (w *watch) lose(of *body) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.body == of {
		w.ctx.Cancel(nil)
	}
}

// setReadDeadline sets a deadline for the handler of a request. The poller knows none, so that a
// goroutine waits for the client in its place.
func (w *watch) setReadDeadline(of *body, t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.body != of {
		return errOver
	}
	w.conn.readBy = noDeadline
	err := w.conn.net.SetReadDeadline(t)
	if w.number != 0 {
		w.leave()
		w.reading = true
		go w.read() // ends with the request
	}
	return err
}

// early takes the byte that the client has sent during the request before.
func (w *watch) early() (first byte, has bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, has = w.first, w.has
	w.has = false
	return first, has
}
