package descent

import (
	"bytes"
	"errors"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// descentTries is how often the ancestors are read again if one of them ends meanwhile.
const descentTries = 5

// OfConn tells whether the other end of a connection on a Unix socket is a process that
// descends from this one. A peer that cannot be identified counts as a descendant.
func OfConn(c net.Conn) bool {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return true
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return true
	}
	pid, pidfd := 0, -1
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); credErr == nil {
			pid = int(cred.Pid)
		}
		// Older kernels do not have it; then another process may have got the number
		// within these microseconds.
		if f, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
			pidfd = f
		}
	}); err != nil || credErr != nil {
		return true
	}
	if pidfd >= 0 {
		defer unix.Close(pidfd)
	}
	switch pid {
	case os.Getpid():
		return false
	case 0:
		return false // a process of a surrounding namespace, where no descendant is
	}
	if descends(pid) {
		return true
	}
	return pidfd >= 0 && ended(pidfd) // another process may have the number now
}

// ended tells whether the process of a pidfd has ended.
func ended(pidfd int) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || n > 0
		}
	}
}

// descends tells whether a process descends from this one. A process that ends during the
// check counts as a descendant.
func descends(pid int) bool {
	self := os.Getpid()
	for range descentTries {
		at, lost := pid, false
		for range maxAncestors {
			if at == self {
				return true
			}
			if at <= 1 {
				return false
			}
			parent, err := parentOf(at)
			if err != nil {
				if at != pid && errors.Is(unix.Kill(at, 0), unix.EPERM) {
					return false // another user's process, hidden from us: we did not start it
				}
				lost = true
				break
			}
			at = parent
		}
		if !lost {
			return true // more ancestors than there can be
		}
	}
	return true
}

// parentOf reads the parent of a process (proc_pid_stat(5)); 0 is none of this namespace.
// The name of a program is in parentheses, and may contain parentheses.
func parentOf(pid int) (int, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	_, parent, err := statFields(text)
	return parent, err
}

func statFields(text []byte) (state byte, parent int, err error) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 || len(fields[0]) != 1 {
		return 0, 0, errors.New("/proc has no such line")
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err
}

// processes reads the parents of all processes, and their states.
func processes() (parents map[int]int, states map[int]byte, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	parents, states = map[int]int{}, map[int]byte{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // ended, or hidden
		}
		if state, parent, err := statFields(text); err == nil {
			parents[pid], states[pid] = parent, state
		}
	}
	return parents, states, nil
}
