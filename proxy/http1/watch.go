package http1

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// watchAfter is how long a request is served before anybody looks whether its client is still
// there. Most are served by then.
const watchAfter = 10 * time.Millisecond

// watch cancels the request under way when its client closes the connection.
type watch struct {
	conn  *conn
	timer *time.Timer

	mu      sync.Mutex
	changed sync.Cond
	body    *body // of the request under way; nil while there is none
	ended   bool  // it was read to its end
	cancel  context.CancelFunc
	reading bool // a goroutine reads from the connection
	ending  bool // it is to end
	has     bool // it has sent first, which belongs to its next request
	first   byte
}

func (w *watch) init(c *conn) {
	w.conn = c
	w.changed.L = &w.mu
}

// begin watches a request. While its body comes, who reads that sees the client go.
func (w *watch) begin(b *body, cancel context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.body, w.cancel, w.ended = b, cancel, b.left == 0
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

// look waits until the client sends something or goes. It runs in a goroutine of the timer,
// which ends with the request at the latest. The timer of a request may come as late as in the
// next one, whose body is nothing to take bytes from.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.body == nil || !w.ended || w.reading || w.has {
		return
	}
	w.conn.readBy = noDeadline
	_ = w.conn.net.SetReadDeadline(time.Time{}) // a connection that fails it fails the read
	w.reading = true
	w.mu.Unlock()
	var b [1]byte
	n, err := w.conn.direct.Read(b[:])
	w.mu.Lock()
	w.reading = false
	switch {
	case n == 1:
		w.first, w.has = b[0], true
	case !w.ending || !errors.Is(err, os.ErrDeadlineExceeded):
		if w.cancel != nil {
			w.cancel()
		}
	}
	w.changed.Broadcast()
}

// end stops watching, and waits for that.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.body, w.cancel = nil, nil
	if w.timer != nil {
		w.timer.Stop()
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
		w.cancel()
	}
}

// setReadDeadline sets a deadline for the handler of a request.
func (w *watch) setReadDeadline(of *body, t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.body != of {
		return errOver
	}
	w.conn.readBy = noDeadline
	return w.conn.net.SetReadDeadline(t)
}

// early takes the byte that the client has sent during the request before.
func (w *watch) early() (first byte, has bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, has = w.first, w.has
	w.has = false
	return first, has
}
