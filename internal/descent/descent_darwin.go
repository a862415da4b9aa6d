package descent

import (
	"context"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Adopt does nothing: macOS hands orphans to its first process, and their descent is
// lost.
func Adopt() error { return nil }

// SweepAdopted has nothing to do here.
func SweepAdopted(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// EndAdopted has nothing to do here.
func EndAdopted() {}

// OfConn tells whether the other end of a connection is a process that descends from this
// one, as long as none of its ancestors has ended. A peer that cannot be identified
// counts as a descendant.
func OfConn(c net.Conn) bool {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return true
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return true
	}
	pid := 0
	var pidErr error
	if err := raw.Control(func(fd uintptr) {
		pid, pidErr = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	}); err != nil || pidErr != nil {
		return true
	}
	self := os.Getpid()
	if pid == self {
		return false
	}
	for range maxAncestors {
		if pid == self {
			return true
		}
		if pid <= 1 {
			return false
		}
		info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
		if err != nil {
			return true
		}
		pid = int(info.Eproc.Ppid)
	}
	return true
}

// heldByDescendant cannot be determined here: the token or the signature of a request
// decides (docs/authentication.md says so for each system).
func heldByDescendant(_, _ netip.AddrPort) bool { return false }
