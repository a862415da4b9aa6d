//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package child

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// followsGateway is false: the system does not kill children with the gateway.
const followsGateway = false

// groupAttr makes a child lead a group.
func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit blocks until the child pid has exited, without reaping it. On Darwin,
// waitid would also return for a stopped child.
func awaitExit(pid int) error {
	queue, err := unix.Kqueue()
	if err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	defer unix.Close(queue)
	unix.CloseOnExec(queue)

	changes := make([]unix.Kevent_t, 1)
	unix.SetKevent(&changes[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	changes[0].Fflags = unix.NOTE_EXIT
	events := make([]unix.Kevent_t, 1)
	for {
		n, err := unix.Kevent(queue, changes, events, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ESRCH:
			return nil // it has exited before
		case err != nil:
			return fmt.Errorf("watch process %d: %w", pid, err)
		case n == 0:
			continue
		case events[0].Flags&unix.EV_ERROR != 0 && syscall.Errno(events[0].Data) != unix.ESRCH:
			return fmt.Errorf("watch process %d: %w", pid, syscall.Errno(events[0].Data))
		}
		return nil
	}
}
