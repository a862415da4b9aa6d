package admin

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/orphan"
)

// Adopt makes this process the parent of its descendants whose own parents end,
// in the place of the first process of the system (prctl(2),
// PR_SET_CHILD_SUBREAPER). It is called before anything is started.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// descentTries is how often the way to the first process is gone again when a
// process on it ends meanwhile.
const descentTries = 5

// descendant tells whether the other end of a connection is a process that
// descends from this one. A peer that cannot be told is one.
func descendant(c net.Conn) bool {
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
		// Older kernels do not have it; then a number may have been given to another
		// process within these microseconds.
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
		return false // of a namespace around ours, where no descendant is
	}
	if descends(pid) {
		return true
	}
	return pidfd >= 0 && ended(pidfd) // the number may be another's now
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

// descends tells whether a process descends from this one. One that ends while it
// is looked at does.
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
					return false // another user's, hidden from us: we started it not
				}
				lost = true
				break
			}
			at = parent
		}
		if !lost {
			return true // longer than any way is
		}
	}
	return true
}

// parentOf reads the parent of a process (proc_pid_stat(5)); 0 is none of this
// namespace. The name of a program stands in brackets, and may have brackets in it.
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

// walking is held by who looks at the open files of all processes, which costs
// milliseconds: connections that come together wait for each other, and take no more
// than one core.
var walking sync.Mutex

// heldByDescendant tells whether the socket of this machine that is connected from
// one address to another belongs to a descendant. One of this machine that belongs
// to nobody any more does. A process can have a socket where /proc does not show
// it, as in a message that nobody has received; so one that may be a descendant's
// is, unless somebody else is seen to hold it.
func heldByDescendant(from, to netip.AddrPort) bool {
	s, found := socketOf(from, to)
	if !found || s.inode == "0" {
		return found || ofThisMachine(from.Addr())
	}
	walking.Lock()
	defer walking.Unlock()
	parents, _, err := processes()
	if err != nil {
		return true
	}
	self := os.Getpid()
	var others []int
	for pid := range parents {
		if pid == self || !below(pid, self, parents) {
			others = append(others, pid)
			continue
		}
		holds, err := holdsSocket(pid, s.inode)
		if holds || err != nil && !errors.Is(err, os.ErrNotExist) {
			return true
		}
	}
	return s.mayBeDescendants() && !slices.ContainsFunc(others, func(pid int) bool {
		holds, err := holdsSocket(pid, s.inode)
		return err == nil && holds && (pid == self || !descends(pid))
	})
}

// ofThisMachine tells whether an address is one of this machine's own.
func ofThisMachine(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(own, func(o net.Addr) bool {
		prefix, err := netip.ParsePrefix(o.String())
		return err == nil && prefix.Addr().Unmap() == a
	})
}

func below(pid, top int, parents map[int]int) bool {
	for range maxAncestors {
		if pid == top {
			return true
		}
		parent, ok := parents[pid]
		if !ok || parent == 0 {
			return false
		}
		pid = parent
	}
	return true
}

// holdsSocket tells whether a process has a socket open.
func holdsSocket(pid int, inode string) (bool, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/fd"
	dir, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if target, err := os.Readlink(path + "/" + name); err == nil && target == "socket:["+inode+"]" {
			return true, nil
		}
	}
	return false, nil
}

// socket is one of this machine.
type socket struct {
	uid   string // of who made it
	inode string // "0" when nobody has it any more
}

// mayBeDescendants tells whether a descendant can have made a socket: of a user's
// process they all are the user's.
func (s socket) mayBeDescendants() bool {
	return os.Geteuid() == 0 || s.uid == strconv.Itoa(os.Geteuid())
}

// socketOf finds a TCP socket of this machine by its two ends.
func socketOf(from, to netip.AddrPort) (s socket, found bool) {
	switch s, err := askKernel(from, to); {
	case err == nil:
		return s, true
	case errors.Is(err, errNoSocket):
		return socket{}, false
	}
	return readSocket(from, to)
}

// readSocket is socketOf by the tables of /proc, for kernels that do not tell about
// one socket (proc_pid_net(5)).
func readSocket(from, to netip.AddrPort) (s socket, found bool) {
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 10 {
				continue
			}
			if near, ok := procAddress(fields[1]); !ok || near != from {
				continue
			}
			if far, ok := procAddress(fields[2]); ok && far == to {
				return socket{uid: fields[7], inode: fields[9]}, true
			}
		}
	}
	return socket{}, false
}

// procAddress reads an address as the kernel prints it: 32-bit words in the order
// of the machine, then the port.
func procAddress(text string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, false
	}
	raw, err := hex.DecodeString(host)
	if err != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), ok
}

// sweepEvery is how often orphans that have ended are looked for. One that has
// ended and is still there at the second look is nobody's: those that this process
// has started itself are waited for by whoever started them.
const sweepEvery = 30 * time.Second

// SweepAdopted reaps the orphans that were handed to this process, until the
// context ends. The guardian is asked to look for those that live: nothing but their
// parent shows whose they are, and that is lost with this process.
func SweepAdopted(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	seen := map[int]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			seen = sweep(seen)
			orphan.Look()
		}
	}
}

// sweep reaps the dead children that were dead before, and returns those that are
// dead now.
func sweep(before map[int]bool) map[int]bool {
	now := map[int]bool{}
	parents, states, err := processes()
	if err != nil {
		return now
	}
	for pid, state := range states {
		if state != 'Z' || parents[pid] != os.Getpid() {
			continue
		}
		if !before[pid] {
			now[pid] = true
			continue
		}
		var status unix.WaitStatus
		_, _ = unix.Wait4(pid, &status, unix.WNOHANG, nil) // somebody else may have
	}
	return now
}

// maxRounds bounds how often EndAdopted looks for what is left.
const maxRounds = 64

// EndAdopted kills what is left of the descendants of a process that ends and has
// waited for all that it started itself: handed on to the first process of the
// system, they would not be known as descendants by the next gateway.
func EndAdopted() {
	// To read all processes takes longer than most commands, and most have started
	// nothing. What has no children has no descendants.
	if unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WALL|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD {
		return
	}
	for range maxRounds {
		parents, states, err := processes()
		if err != nil {
			return
		}
		self, left := os.Getpid(), false
		for pid := range parents {
			if pid == self || !below(pid, self, parents) {
				continue
			}
			if states[pid] != 'Z' {
				left = true
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
			}
			if parents[pid] == self {
				var status unix.WaitStatus
				_, _ = unix.Wait4(pid, &status, unix.WNOHANG, nil)
			}
		}
		if !left {
			return
		}
	}
}
