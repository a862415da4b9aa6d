// Package idleread reads from connections that are silent most of the time, and holds no
// buffer while they are.
package idleread

import (
	"net"
	"sync"
	"syscall"
)

// Size is the size of a [Buffer].
const Size = 4 << 10

// Buffer is memory for what is read. It belongs to whoever took it, until it is freed.
type Buffer [Size]byte

var buffers = sync.Pool{New: func() any { return new(Buffer) }}

// Take returns a buffer with any content.
func Take() *Buffer { return buffers.Get().(*Buffer) }

// Free gives a buffer back. Nobody uses it afterwards.
func (b *Buffer) Free() { buffers.Put(b) }

// Reader waits for the next bytes of a connection. Make it with [New]. One goroutine at a time
// uses it.
type Reader struct {
	conn net.Conn

	raw syscall.RawConn    // by which it waits; nil where it needs a buffer for that
	try func(uintptr) bool // reads without waiting
	got read
}

// read is what a call of try has read.
type read struct {
	buf *Buffer
	n   int
	err error
}

// New returns a reader of a connection. Deadlines of the connection hold for it.
func New(c net.Conn) *Reader {
	r := &Reader{conn: c}
	r.init()
	return r
}

// Next waits for bytes, or the end of the connection, and reads what is there into a buffer
// that it takes then. The buffer may be nil if there is an error.
func (r *Reader) Next() (*Buffer, int, error) {
	if r.raw != nil {
		return r.next()
	}
	return r.withBuffer()
}

func (r *Reader) withBuffer() (*Buffer, int, error) {
	b := Take()
	n, err := r.conn.Read(b[:])
	return b, n, err
}
