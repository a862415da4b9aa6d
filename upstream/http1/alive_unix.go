//go:build unix

package http1

import (
	"errors"
	"net"
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
