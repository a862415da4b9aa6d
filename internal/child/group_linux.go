package child

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// followsGateway: the system kills a leader with the gateway.
const followsGateway = true

// groupAttr makes a child lead a group, and die with the thread that starts it:
// see Group.hold, which keeps that thread.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit blocks until the child pid has exited, and does not reap it.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return fmt.Errorf("wait for process %d: %w", pid, err)
		}
	}
}
