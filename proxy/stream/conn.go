package stream

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Conn is the connection of a client that carries one response of HTTP/1.1 and nothing after
// it. An idle stream that stays with the server of the standard library holds 10 KB of buffers,
// and the deep stack of a handler. Make it with [Take].
//
// Its methods are safe for concurrent use, but for Send beside Send.
type Conn struct {
	conn net.Conn
	gone chan struct{}

	mu     sync.Mutex
	end    time.Time // by which the last byte is written; zero while there is no end
	broken bool      // something was not written, or in part
}

// Take takes the connection of a request without a body from its server, and begins the response
// with the headers of w and the status 200. The handler then returns, and Close ends the
// connection. It returns nil if the connection cannot be taken; w is as before then.
func Take(w http.ResponseWriter, r *http.Request, within time.Duration) *Conn {
	if r.ProtoMajor != 1 || r.ProtoMinor < 1 || r.ContentLength != 0 {
		return nil // a body that nobody reads is its server's to deal with
	}
	conn, _, err := http.NewResponseController(w).Hijack() // what the client sends further is for nobody
	if err != nil {
		return nil
	}
	c := &Conn{conn: conn, gone: make(chan struct{})}
	go c.watch() // ends with the connection
	h := w.Header()
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	h.Set("Connection", "close")
	h.Set("Transfer-Encoding", "chunked")
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 200 OK\r\n")
	_ = h.Write(&head) // a buffer takes everything
	head.WriteString("\r\n")
	c.write(within, head.Bytes())
	return c
}

// watch notes that the client has gone. A client that sends more is read no further, and counts
// as gone once it takes nothing.
func (c *Conn) watch() {
	var some [1]byte
	if n, _ := c.conn.Read(some[:]); n == 0 {
		close(c.gone)
	}
}

// Gone is closed when the client has closed the connection.
func (c *Conn) Gone() <-chan struct{} { return c.gone }

// Send sends a part of the body, and tells whether the connection has taken it in time.
func (c *Conn) Send(within time.Duration, parts ...[]byte) bool {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if n == 0 {
		return true // an empty chunk would end the response
	}
	chunk := make([]byte, 0, n+20)
	chunk = append(strconv.AppendInt(chunk, int64(n), 16), '\r', '\n')
	for _, p := range parts {
		chunk = append(chunk, p...)
	}
	return c.write(within, append(chunk, '\r', '\n'))
}

// write writes, unless something was not written before: a part of a chunk is followed by
// nothing.
func (c *Conn) write(within time.Duration, raw []byte) bool {
	c.mu.Lock()
	until := time.Now().Add(within)
	if !c.end.IsZero() && c.end.Before(until) {
		until = c.end
	}
	broken := c.broken
	_ = c.conn.SetWriteDeadline(until)
	c.mu.Unlock()
	if broken {
		return false
	}
	_, err := c.conn.Write(raw)
	if err != nil {
		c.mu.Lock()
		c.broken = true
		c.mu.Unlock()
	}
	return err == nil
}

// End bounds the time for everything that is still to be written, what is being written
// included. It does not block.
func (c *Conn) End(within time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = time.Now().Add(within)
	_ = c.conn.SetWriteDeadline(c.end)
}

// Close ends the response, unless something was not written, and the connection.
func (c *Conn) Close(within time.Duration) error {
	c.write(within, []byte("0\r\n\r\n"))
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("close a stream: %w", err)
	}
	return nil
}
