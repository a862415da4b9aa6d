package guardian

import (
	"os"
	"syscall"
)

// maxRounds bounds how often a guardian looks for remaining processes. Two or three
// rounds are enough, unless something cannot be killed.
const maxRounds = 50

// maxStrays bounds the known descendants outside of the groups.
const maxStrays = 1 << 12

// look finds the descendants of the gateway outside of the groups. Once the gateway is
// gone nothing shows that they are its descendants.
func (t *table) look() {
	if os.Getppid() != t.gateway {
		return // the end of the pipe is about to come
	}
	all := processes()
	below := newTree(all).below(func(p *process) bool { return p.pid == t.gateway })
	groups := t.groups()
	clear(t.strays)
	for _, p := range below {
		if p.pid != t.gateway && p.pid != t.self && !groups[p.group] && !groups[p.session] && len(t.strays) < maxStrays {
			t.strays[p.pid] = p.start
		}
	}
}

// groups are the groups of the children.
func (t *table) groups() map[int]bool {
	out := make(map[int]bool, len(t.children))
	for _, c := range t.children {
		out[c.pid] = true
	}
	return out
}

// end kills everything that is left of the children.
func (t *table) end() {
	for range maxRounds {
		all := processes()
		doomed := t.doomed(all)
		// A group is killed in one step, so that nobody in it can start another process
		// meanwhile. Processes that left their group were found before, through their
		// parents.
		for _, c := range t.children {
			c.kill()
		}
		for _, p := range doomed {
			p.kill()
		}
		if len(doomed) == 0 {
			return
		}
	}
}

// doomed returns the running processes to kill: those in the groups and sessions of the
// children, the strays, and all descendants of these.
func (t *table) doomed(all []process) []*process {
	groups := make(map[int]bool, len(t.children))
	for _, c := range t.children {
		if c.there() {
			groups[c.pid] = true
		}
	}
	found := newTree(all).below(func(p *process) bool {
		start, stray := t.strays[p.pid]
		return groups[p.group] || groups[p.session] || stray && start == p.start
	})
	var out []*process
	for _, p := range found {
		if p.ended() || !t.mayEnd(p.pid) {
			continue
		}
		out = append(out, p)
		if p.group == p.pid && !groups[p.pid] {
			// It leads a group of its own, which is killed like those of the children.
			c := &child{pid: p.pid, start: p.start, pidfd: -1}
			c.open()
			t.add(uint64(p.pid)|1<<63, c) // positive; apart from the gateway's numbers
		}
	}
	return out
}

// System calls for process descriptors, with the same numbers on all machines, and the
// flag for a signal to a whole group.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
	pidfdSignalGroup   = 1 << 2
)

// open opens a descriptor of the process. It identifies the process and its group even
// if the process id is reused. If the id was reused already, the descriptor is closed
// again.
func (c *child) open() {
	if c.pidfd = openProcess(c.pid); c.pidfd >= 0 && c.start != 0 && StartTime(c.pid) != c.start {
		c.close()
	}
}

func (c *child) close() {
	if c.pidfd >= 0 {
		_ = syscall.Close(c.pidfd)
	}
	c.pidfd = -1
}

// kill kills the group. It fails when the group is empty, or belongs to another user.
func (c *child) kill() { _ = c.signal(syscall.SIGKILL) }

// there reports whether the group has processes.
func (c *child) there() bool {
	errno := c.signal(0)
	return errno == 0 || errno == syscall.EPERM
}

func (c *child) signal(sig syscall.Signal) syscall.Errno {
	if c.pidfd >= 0 {
		errno := signalProcess(c.pidfd, sig, pidfdSignalGroup)
		if errno != syscall.EINVAL && errno != syscall.ENOSYS {
			return errno
		}
		// Kernels before Linux 6.9 do not signal groups by descriptor.
	}
	if c.reused() {
		return syscall.ESRCH
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_KILL, uintptr(-c.pid), uintptr(sig), 0)
	return errno
}

// openProcess returns a descriptor of a process, or -1.
func openProcess(pid int) int {
	fd, _, errno := syscall.RawSyscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return -1
	}
	return int(fd)
}

func signalProcess(pidfd int, sig syscall.Signal, flags uintptr) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(sysPidfdSendSignal, uintptr(pidfd), uintptr(sig), 0, flags, 0, 0)
	return errno
}

// kill kills a process, unless its id was reused.
func (p *process) kill() {
	fd := openProcess(p.pid)
	if StartTime(p.pid) == p.start {
		if fd < 0 || signalProcess(fd, syscall.SIGKILL, 0) == syscall.ENOSYS {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	if fd >= 0 {
		_ = syscall.Close(fd)
	}
}
