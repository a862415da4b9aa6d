//go:build unix

package http1

import (
	"net"
	"syscall"
)

// checked tells that a connection can be looked at before it is used again.
const checked = true

// isOpen tells whether a connection that carries nothing is still open, and silent. A server
// that has closed it would not run the request; one that has sent something without a
// request speaks something else.
func isOpen(c net.Conn) bool {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	to, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	open := false
	err = to.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		open = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true // without waiting
	})
	return err == nil && open
}
