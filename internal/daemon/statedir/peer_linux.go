package statedir

import (
	"net"
	"syscall"
)

// peer returns the process that listens on a socket, as it is numbered here; 0 if it is in
// a container that this process cannot look into. known is false if the system does not
// tell.
func peer(c net.Conn) (pid int, known bool) {
	conn, ok := c.(syscall.Conn)
	if !ok {
		return 0, false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *syscall.Ucred
	if controlErr := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); controlErr != nil || err != nil {
		return 0, false
	}
	return int(cred.Pid), true
}
