package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/idleread"
)

const (
	// maxHeld bounds the beginning of a body that waits to see whether it is all of it.
	maxHeld = 2 << 10
	// writeTime bounds a write of a handler that sets no deadline.
	writeTime = 30 * time.Second
)

// response is the response to a request. It implements [http.ResponseWriter] and what
// [http.ResponseController] needs.
type response struct {
	conn *conn
	body *body // of the request

	mu     sync.Mutex
	header http.Header // what the handler sets
	status int         // 0 before WriteHeader
	sent   http.Header // what holds of it, while the head is not written
	head   bool        // it is written
	kind   string      // the content type of a response that was given whole; else empty
	closes bool        // the connection ends with the response
	over   bool        // the handler has returned, or has the connection
	taken  bool        // it has the connection
	// released means that nobody uses the request once the handler has returned.
	released bool
	err      error // of the first write that failed

	length  int64 // of the body as the handler tells it; -1 if it does not
	written int64
	chunked bool
	held    []byte // of the body: the beginning before the head, later the next chunk

	out *idleread.Buffer // out[:n] is to be written; nil where n is 0
	n   int

	deadline deadline
}

// deadline is when the writes of a response end. It is set also while one waits.
type deadline struct {
	mu      sync.Mutex
	by      time.Time
	set     bool // by the handler
	writing bool
}

var errOver = errors.New("the response has ended")

// Header implements [http.ResponseWriter]. It is empty once the header was flushed.
func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header, 4)
	}
	return w.header
}

// WriteHeader implements [http.ResponseWriter]. Interim responses are not sent.
func (w *response) WriteHeader(status int) {
	checkStatus(status)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(status)
}

// checkStatus panics, as net/http does, for a status of which the line would be none.
func checkStatus(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
}

func (w *response) writeHeader(status int) {
	if w.over || w.status != 0 || status < http.StatusOK {
		return
	}
	w.status, w.length = status, -1
	if told := w.Header()["Content-Length"]; len(told) > 0 {
		if n, err := strconv.ParseInt(told[0], 10, 64); err == nil && n >= 0 {
			w.length = n
		}
	}
	if _, typed := w.header["Content-Type"]; w.length >= 0 && typed {
		w.writeHead(w.header, nil)
		return
	}
	w.sent = w.header.Clone()
}

// hasBody tells whether a response of the status has a body.
func (w *response) hasBody() bool {
	return w.status != http.StatusNoContent && w.status != http.StatusNotModified
}

// Write implements [io.Writer].
func (w *response) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.taken:
		return 0, http.ErrHijacked
	case w.over:
		return 0, errOver
	}
	w.writeHeader(http.StatusOK)
	switch {
	case len(p) == 0:
		return 0, w.err
	case !w.hasBody():
		return 0, http.ErrBodyNotAllowed
	case w.length >= 0 && w.written+int64(len(p)) > w.length:
		return 0, http.ErrContentLength
	}
	w.written += int64(len(p))
	switch {
	case w.length >= 0:
		if !w.head {
			w.writeHead(w.sent, p)
		}
		w.append(p)
	case len(w.held)+len(p) <= maxHeld:
		w.held = append(w.held, p...)
	default:
		w.writeChunk(p)
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// WriteWhole writes a whole response that has not begun, with its type and its length, whatever
// the header says of them.
func (w *response) WriteWhole(status int, contentType string, parts ...[]byte) error {
	checkStatus(status)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.taken:
		return http.ErrHijacked
	case w.over || w.status != 0 || status < http.StatusOK:
		return errOver
	}
	w.status, w.kind, w.length = status, contentType, 0
	delete(w.header, "Content-Type")
	if !w.hasBody() {
		parts = nil
	}
	for _, p := range parts {
		w.length += int64(len(p))
	}
	w.written = w.length
	w.writeHead(w.header, nil)
	for _, p := range parts {
		w.append(p)
	}
	return w.err
}

// NeverAwaitsBody says that no response waits for the body of its request.
func (w *response) NeverAwaitsBody() {}

// writeChunk writes what is held and more as one chunk.
func (w *response) writeChunk(more []byte) {
	if !w.head {
		w.chunked = true
		w.writeHead(w.sent, slices.Concat(w.held, more[:min(len(more), sniffed)]))
	}
	n := len(w.held) + len(more)
	if n == 0 {
		return // an empty chunk would end the body
	}
	w.appended(append(strconv.AppendInt(w.room(), int64(n), 16), '\r', '\n'))
	w.append(w.held)
	w.append(more)
	w.append(lineEnd)
	w.held = w.held[:0]
}

var (
	lineEnd = []byte("\r\n")
	lastOne = []byte("0\r\n\r\n")
)

// Flush implements [http.Flusher].
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is for [http.ResponseController].
func (w *response) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return errOver
	}
	w.writeHeader(http.StatusOK)
	if w.length < 0 && w.hasBody() {
		w.writeChunk(nil)
	} else if !w.head {
		w.writeHead(w.sent, nil)
	}
	w.header = nil // sent, and a stream may last
	w.flush()
	return w.err
}

// finish ends the response after the handler. It tells whether the connection carries another
// one.
func (w *response) finish() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(http.StatusOK)
	switch {
	case w.chunked:
		w.writeChunk(nil)
		w.append(lastOne)
	case w.length < 0 && w.head: // without a body
	case w.length < 0:
		w.length = int64(len(w.held))
		w.writeHead(w.sent, w.held)
		w.append(w.held)
	default:
		if w.hasBody() && w.written < w.length {
			w.closes = true // the client must not take the next response for the rest
		}
		if !w.head {
			w.writeHead(w.sent, nil)
		}
	}
	w.flush()
	w.over = true
	return w.err == nil && !w.closes
}

// append adds bytes to what is to be written. It keeps none of p.
func (w *response) append(p []byte) {
	if len(p) > idleread.Size-w.n {
		if len(p) > idleread.Size/4 { // not worth a copy
			w.flush(p)
			return
		}
		w.flush()
	}
	if len(p) == 0 {
		return
	}
	w.appended(append(w.room(), p...))
}

// room returns what is to be written, to append to it.
func (w *response) room() []byte {
	if w.out == nil {
		w.out = idleread.Take()
	}
	return w.out[:w.n]
}

// appended takes what was appended to room. What is too long for its buffer is written.
func (w *response) appended(b []byte) {
	if w.n = len(b); w.n > idleread.Size {
		w.n = 0
		w.flush(b)
	}
}

// flush writes what is to be written, and more behind it.
func (w *response) flush(more ...[]byte) {
	parts := more
	if w.n > 0 {
		parts = append([][]byte{w.out[:w.n]}, more...)
	}
	if len(parts) > 0 && w.err == nil {
		if w.err = w.conn.write(&w.deadline, parts); w.err != nil {
			w.conn.gone.lose(w.body)
		}
	}
	if w.out != nil {
		w.out.Free()
		w.out, w.n = nil, 0
	}
}

// write writes the parts of a response.
func (c *conn) write(d *deadline, parts net.Buffers) error {
	c.writeUntil(d)
	defer d.written()
	if len(parts) == 1 {
		_, err := c.direct.Write(parts[0])
		return err
	}
	_, err := parts.WriteTo(c.direct)
	return err
}

// writeUntil sets the deadline of a write, unless the one that is set is earlier by no more than
// an eighth: to set it takes longer than to look.
func (c *conn) writeUntil(d *deadline) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing = true
	now := time.Now()
	by := d.by
	if !d.set {
		by = now.Add(writeTime)
	}
	if by.IsZero() || c.writeBy.After(by) || c.writeBy.Before(by.Add(-by.Sub(now)/8)) {
		c.writeBy = by
		_ = c.net.SetWriteDeadline(by) // a connection that fails it fails the write
	}
}

func (d *deadline) written() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing = false
}

// SetWriteDeadline is for [http.ResponseController].
func (w *response) SetWriteDeadline(t time.Time) error {
	d := &w.deadline
	d.mu.Lock()
	defer d.mu.Unlock()
	d.by, d.set = t, true
	if !d.writing {
		return nil
	}
	w.conn.writeBy = t
	return w.conn.net.SetWriteDeadline(t)
}

// SetReadDeadline is for [http.ResponseController].
func (w *response) SetReadDeadline(t time.Time) error { return w.conn.gone.setReadDeadline(w.body, t) }

// EnableFullDuplex is for [http.ResponseController]. A response never waits for the body of its
// request here.
func (w *response) EnableFullDuplex() error { return nil }

// Hijack implements [http.Hijacker].
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return nil, nil, http.ErrHijacked
	}
	c := w.conn
	c.gone.end()
	w.body.finish()
	w.flush()
	w.over, w.taken, c.over = true, true, true
	c.takeEarly()
	var received []byte
	if c.buf != nil {
		received = append(received, c.buf[c.r:c.w]...)
	}
	if err := c.net.SetDeadline(time.Time{}); err != nil {
		c.net.Close() // nobody else does
		return nil, nil, err
	}
	c.setState(http.StateHijacked)
	from := io.Reader(c.net)
	if len(received) > 0 {
		from = io.MultiReader(bytes.NewReader(received), c.net)
	}
	return c.net, bufio.NewReadWriter(bufio.NewReaderSize(from, 16), bufio.NewWriterSize(c.net, 16)), nil
}

// sniffed is how much of a body tells its type (https://mimesniff.spec.whatwg.org).
const sniffed = 512

// writeHead writes the status line and the header. A body whose type is not told begins with
// first.
func (w *response) writeHead(h http.Header, first []byte) {
	w.head = true
	w.closes = w.closes || w.conn.s.closing.Load() || !w.body.arrived() || asksToClose(h)
	b := appendStatus(w.room(), w.status)
	if _, told := h["Date"]; !told {
		b = append(append(append(b, "Date: "...), w.conn.s.dateOf(time.Now())...), "\r\n"...)
	}
	if w.kind != "" {
		b = append(append(append(b, "Content-Type: "...), w.kind...), "\r\n"...)
	} else if _, told := h["Content-Type"]; !told && len(first) > 0 && len(h["Content-Encoding"]) == 0 {
		b = append(append(append(b, "Content-Type: "...), http.DetectContentType(first)...), "\r\n"...)
	}
	switch {
	case w.chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case w.hasBody():
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), w.length, 10), "\r\n"...)
	}
	if w.closes {
		b = append(b, "Connection: close\r\n"...)
	}
	w.appended(append(appendFields(b, h), "\r\n"...))
	w.sent = nil
}

func asksToClose(h http.Header) bool {
	for _, value := range h["Connection"] {
		if strings.EqualFold(value, "close") {
			return true
		}
	}
	return false
}
