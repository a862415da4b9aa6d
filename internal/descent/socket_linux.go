package descent

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// walking is held while the open files of all processes are read, which costs
// milliseconds. Connections that arrive together wait for each other, and use no more
// than one core.
var walking sync.Mutex

// heldByDescendant tells whether the socket of this machine that is connected from one
// address to another belongs to a descendant. A socket of this machine without an owner
// counts as one. A process can have a socket where /proc does not show it, as in a
// message that nobody has received. So a socket that may belong to a descendant counts as
// one, unless another process is seen to hold it.
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

// ofThisMachine tells whether an address is one of this machine's own: a process here may
// also use the one that other machines have it by.
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
	uid   string // user that created it
	inode string // "0" if nobody has it any more
}

// mayBeDescendants tells whether a descendant can have created a socket: the descendants
// of a user's process all belong to that user.
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

// readSocket does the same as socketOf with the tables of /proc (proc_pid_net(5)). They
// are used if the kernel does not answer for one socket: in a service that may not use
// netlink sockets, as with the RestrictAddressFamilies of
// examples/deploy/toolgate.service, and under a kernel without sock_diag.
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

// procAddress reads an address as the kernel prints it: 32-bit words in the byte order of
// the machine, then the port.
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
