package cluster

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// control ends a connection of which the other side has confirmed nothing for lostTime. The
// kernel would go on for a quarter of an hour, and keep-alive probes are not sent meanwhile.
func control(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(lostTime.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
