package child

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// followsGateway is true: the system kills the leader with the gateway.
const followsGateway = true

// groupAttr makes a child lead a group, and die with the thread that starts it;
// Group.hold keeps that thread.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit blocks until the child pid has exited, without reaping it.
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
