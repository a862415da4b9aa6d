package frames

import (
	"bufio"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// proofTime bounds the proof at the beginning of a connection.
	proofTime = 5 * time.Second
	// writeTime bounds the write of a frame, as its context does. The other side reads all the
	// time.
	writeTime = time.Second
)

// ErrLost means that the connection has ended. The question may have been answered.
var ErrLost = errors.New("the connection is lost")

// ErrTooMany means that a question was not asked because too many are open.
var ErrTooMany = errors.New("too many questions are open")

// Failure is what the other side says instead of an answer.
type Failure string

// Error implements error.
func (f Failure) Error() string { return string(f) }

// Conn asks questions. It is safe for concurrent use.
type Conn struct {
	conn net.Conn
	turn chan struct{} // held by who writes, with out
	out  []byte

	mu   sync.Mutex
	last uint64                  // id of a question
	open map[uint64]chan<- frame // nil when the connection has ended
	done chan struct{}           // closed when nobody reads any more
}

// Dial connects to the socket of a plugin.
func Dial(ctx context.Context, path string, key []byte) (_ *Conn, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	_ = conn.SetDeadline(time.Now().Add(proofTime))
	if _, err := conn.Write(key[:KeySize/2]); err != nil {
		return nil, err
	}
	if err := expect(conn, key[KeySize/2:KeySize]); err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	c := &Conn{conn: conn, turn: make(chan struct{}, 1), open: make(map[uint64]chan<- frame), done: make(chan struct{})}
	go c.receive()
	return c, nil
}

// expect reads half of a key.
func expect(from io.Reader, half []byte) error {
	got := make([]byte, len(half))
	if _, err := io.ReadFull(from, got); err != nil {
		return fmt.Errorf("read the key: %w", err)
	}
	if subtle.ConstantTimeCompare(got, half) != 1 {
		return errors.New("the other side has another key")
	}
	return nil
}

// Close ends the connection and all open questions.
func (c *Conn) Close() {
	c.conn.Close()
	<-c.done
}

// Lost reports whether the connection has ended.
func (c *Conn) Lost() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// receive reads until the connection ends.
func (c *Conn) receive() {
	defer close(c.done)
	defer c.conn.Close()
	from := bufio.NewReaderSize(c.conn, 16<<10)
	for {
		f, err := read(from)
		if err != nil || f.kind != answer && f.kind != failure {
			break
		}
		if to := c.take(f.id); to != nil {
			to <- f // it has room
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, to := range c.open {
		close(to)
	}
	c.open = nil
}

// take removes an open question; it is nil when nobody waits for its answer.
func (c *Conn) take(id uint64) chan<- frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := c.open[id]
	delete(c.open, id)
	return to
}

// ask opens a question.
func (c *Conn) ask() (id uint64, answer <-chan frame, err error) {
	to := make(chan frame, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.open == nil:
		return 0, nil, ErrLost
	case len(c.open) >= maxOpen:
		return 0, nil, ErrTooMany
	}
	c.last++
	c.open[c.last] = to
	return c.last, to, nil
}

// Ask asks a question of at most [MaxBody] bytes and waits for the answer. When ctx ends,
// the other side is told, and the error is the cause.
func (c *Conn) Ask(ctx context.Context, body []byte) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	id, answer, err := c.ask()
	if err != nil {
		return nil, err
	}
	if !c.write(ctx, &frame{question, id, body}) {
		c.take(id)
		return nil, context.Cause(ctx)
	}
	select {
	case f, ok := <-answer:
		switch {
		case !ok:
			return nil, ErrLost
		case f.kind == failure:
			return nil, Failure(f.body)
		}
		return f.body, nil
	case <-ctx.Done():
		if c.take(id) != nil {
			c.write(context.Background(), &frame{cancel, id, nil})
		}
		return nil, context.Cause(ctx)
	}
}

// write writes a frame. It returns false if ctx has ended before all of it was written. A
// connection on which a part of a frame was written ends.
func (c *Conn) write(ctx context.Context, f *frame) bool {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	case <-c.done:
		return true
	}
	defer func() { <-c.turn }()
	c.out = f.append(c.out[:0])
	until := time.Now().Add(writeTime)
	ends, own := ctx.Deadline()
	if own = own && ends.Before(until); own {
		until = ends
	}
	_ = c.conn.SetWriteDeadline(until)
	n, err := c.conn.Write(c.out)
	if cap(c.out) > 64<<10 {
		c.out = nil
	}
	late := own && errors.Is(err, os.ErrDeadlineExceeded)
	if err != nil && (n > 0 || !late) {
		c.conn.Close() // its receiver ends all questions
	}
	if late {
		<-ctx.Done() // which is now
	}
	return !late
}
