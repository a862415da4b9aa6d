//go:build unix

package http1

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// checked tells that a connection can be looked at before it is used again.
const checked = true

// isOpen tells whether a connection that carries nothing is still open, and silent. A server
// that has closed it would not run the request; one that has sent something without a
// request speaks something else.
func isOpen(c net.Conn) bool {
	var b [1]byte
	_, err := now(c, func(fd int) (int, error) {
		n, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK)
		return n, err
	})
	return errors.Is(err, syscall.EAGAIN)
}

// readNow reads what was received, without waiting; 0 where that is nothing.
func readNow(c net.Conn, b []byte) int {
	n, err := now(c, func(fd int) (int, error) { return syscall.Read(fd, b) })
	if err != nil {
		return 0
	}
	return max(0, n)
}

// readFirst waits until the server has sent something, or has closed the connection, and reads
// into a buffer that is taken then.
func (c *conn) readFirst() (int, error) {
	if c.raw == nil {
		c.buf = takeBuffer()
		return c.net.Read(c.buf[:])
	}
	if err := c.raw.Read(c.tryFirst); err != nil {
		return 0, err
	}
	n, err := c.first.n, c.first.err
	switch {
	case err != nil:
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: c.net.LocalAddr(), Addr: c.net.RemoteAddr(), Err: os.NewSyscallError("read", err)}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// readWithoutWaiting is tryFirst of a connection. It is false where nothing has come yet.
func (c *conn) readWithoutWaiting(fd uintptr) bool {
	b := takeBuffer()
	n, err := syscall.Read(int(fd), b[:])
	for errors.Is(err, syscall.EINTR) {
		n, err = syscall.Read(int(fd), b[:])
	}
	if errors.Is(err, syscall.EAGAIN) {
		buffers.Put(b)
		return false
	}
	c.buf, c.first.n, c.first.err = b, n, err
	return true
}

// awaitable lets readFirst wait without a buffer, where the connection has a socket.
func (c *conn) awaitable() {
	if socket, ok := c.net.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			c.raw, c.tryFirst = raw, c.readWithoutWaiting
		}
	}
}

// now does something with the socket of a connection, once.
func now(c net.Conn, do func(fd int) (int, error)) (n int, err error) {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return 0, net.ErrClosed
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	if unread := raw.Read(func(fd uintptr) bool {
		n, err = do(int(fd))
		return true // without waiting
	}); unread != nil {
		return 0, unread
	}
	return n, err
}
