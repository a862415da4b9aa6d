package descent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// This file asks the kernel about one TCP socket of this machine (sock_diag(7)). Reading
// the tables of /proc costs time for every connection.

const (
	diagRequest = unix.SizeofNlMsghdr + 56 // struct inet_diag_req_v2
	diagAnswer  = unix.SizeofNlMsghdr + 72 // struct inet_diag_msg
	// diagTime bounds the wait for an answer, which the kernel gives at once.
	diagTime = time.Second

	stateListen = 10 // TCP_LISTEN
)

var (
	errNoSocket = errors.New("there is no such socket")
	errNoDiag   = errors.New("the kernel does not tell about sockets")
)

// askKernel finds the socket of this machine that is connected from one address to
// another. The error is errNoSocket if there is none, and any other if this cannot be
// determined.
func askKernel(from, to netip.AddrPort) (socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return socket{}, fmt.Errorf("%w: %w", errNoDiag, err)
	}
	defer unix.Close(fd)
	wait := unix.NsecToTimeval(diagTime.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return socket{}, fmt.Errorf("%w: %w", errNoDiag, err)
	}
	s, err := diagnose(fd, from, to)
	if !errors.Is(err, errNoSocket) {
		return s, err
	}
	// A kernel without this service gives the same answer. The other end of the
	// connection is our own, so a kernel with the service knows it.
	if _, err := diagnose(fd, to, from); err != nil {
		return socket{}, errNoDiag
	}
	return socket{}, errNoSocket
}

// diagnose asks about one socket.
func diagnose(fd int, from, to netip.AddrPort) (socket, error) {
	if from.Addr().Is4() != to.Addr().Is4() {
		return socket{}, errNoSocket
	}
	if err := unix.Sendto(fd, diagQuestion(from, to), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return socket{}, fmt.Errorf("%w: %w", errNoDiag, err)
	}
	answer := make([]byte, 4096)
	n, sender, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return socket{}, fmt.Errorf("%w: %w", errNoDiag, err)
	}
	if kernel, ok := sender.(*unix.SockaddrNetlink); !ok || kernel.Pid != 0 {
		return socket{}, errNoDiag
	}
	return readDiagnosis(answer[:n], from, to)
}

// diagQuestion is a struct nlmsghdr with a struct inet_diag_req_v2 for one socket.
func diagQuestion(from, to netip.AddrPort) []byte {
	q := make([]byte, diagRequest)
	order := binary.NativeEndian
	order.PutUint32(q[0:], diagRequest)
	order.PutUint16(q[4:], unix.SOCK_DIAG_BY_FAMILY)
	order.PutUint16(q[6:], unix.NLM_F_REQUEST)
	q[16] = unix.AF_INET6
	if from.Addr().Is4() {
		q[16] = unix.AF_INET
	}
	q[17] = unix.IPPROTO_TCP
	order.PutUint32(q[20:], ^uint32(0)) // in every state
	putEnds(q[24:], from, to)
	order.PutUint32(q[64:], ^uint32(0)) // with any cookie
	order.PutUint32(q[68:], ^uint32(0))
	return q
}

// putEnds writes the ends of a socket in the form in which struct inet_diag_sockid
// begins.
func putEnds(id []byte, from, to netip.AddrPort) {
	binary.BigEndian.PutUint16(id[0:], from.Port())
	binary.BigEndian.PutUint16(id[2:], to.Port())
	copy(id[4:20], from.Addr().AsSlice())
	copy(id[20:36], to.Addr().AsSlice())
}

// readDiagnosis reads the answer about one socket.
func readDiagnosis(answer []byte, from, to netip.AddrPort) (socket, error) {
	if len(answer) < unix.SizeofNlMsghdr+4 {
		return socket{}, errNoDiag
	}
	order := binary.NativeEndian
	switch order.Uint16(answer[4:]) {
	case unix.NLMSG_ERROR:
		if errno := unix.Errno(-int32(order.Uint32(answer[unix.SizeofNlMsghdr:]))); errno != unix.ENOENT { // the kernel's own number
			return socket{}, fmt.Errorf("%w: %w", errNoDiag, errno)
		}
		return socket{}, errNoSocket
	case unix.SOCK_DIAG_BY_FAMILY:
	default:
		return socket{}, errNoDiag
	}
	if len(answer) < diagAnswer {
		return socket{}, errNoDiag
	}
	msg := answer[unix.SizeofNlMsghdr:]
	if msg[1] == stateListen || !sameEnds(msg[4:], msg[0], from, to) {
		return socket{}, errNoSocket // the kernel returns the listener of the address if there is no connection
	}
	return socket{
		uid:   strconv.FormatUint(uint64(order.Uint32(msg[64:])), 10),
		inode: strconv.FormatUint(uint64(order.Uint32(msg[68:])), 10),
	}, nil
}

// sameEnds tells whether a struct inet_diag_sockid describes a socket.
func sameEnds(id []byte, family byte, from, to netip.AddrPort) bool {
	end := func(address []byte, port uint16) netip.AddrPort {
		size := 16
		if family == unix.AF_INET {
			size = 4
		}
		addr, _ := netip.AddrFromSlice(address[:size])
		return netip.AddrPortFrom(addr.Unmap(), port)
	}
	return end(id[4:20], binary.BigEndian.Uint16(id[0:])) == from && end(id[20:36], binary.BigEndian.Uint16(id[2:])) == to
}
