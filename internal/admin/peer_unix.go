//go:build !windows

package admin

import (
	"net"
	"os"
	"syscall"
)

// listenPrivate opens a socket that only its user may connect to. The umask covers the
// time between its creation and the chmod.
func listenPrivate(path string) (net.Listener, error) {
	old := syscall.Umask(0o077)
	l, err := net.Listen("unix", path) //nolint:noctx // a socket in the file system is there at once
	syscall.Umask(old)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// samePeer tells whether the other end runs as the same user.
func samePeer(c net.Conn) bool {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return false
	}
	same := false
	err = raw.Control(func(fd uintptr) {
		uid, err := peerUID(int(fd))
		same = err == nil && uid == os.Getuid()
	})
	return err == nil && same
}
