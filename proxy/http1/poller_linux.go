package http1

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits for the clients of requests that take long, by one goroutine for all of a server,
// which begins with the first and ends with the server. A goroutine for each, which reads, needs
// a stack of 4 KB. Its zero value is ready.
//
// Each watch is known by a number that is used once. So whatever an epoll set still tells of
// a descriptor, it is never taken for another request's.
type poller struct {
	mu      sync.Mutex
	set     *os.File // an epoll set, for which the runtime waits; nil before the first watch
	fd      int      // that of set
	last    uint64
	watches map[uint64]*watch
	ended   bool
}

// add waits for the connection of a watch, whose mu is held, and returns the number by which
// [watch.ready] is told. It is 0 where the connection has no socket of its own, or the system
// does not let it.
func (p *poller) add(w *watch) uint64 {
	if w.socket == nil {
		w.socket = socketOf(w.conn.direct)
	}
	if w.socket == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || !p.open() {
		return 0
	}
	p.last++
	if p.control(unix.EPOLL_CTL_ADD, w.socket, p.last) != nil {
		return 0
	}
	p.watches[p.last] = w
	return p.last
}

// socketOf returns the socket of a connection that is nothing else.
func socketOf(c net.Conn) syscall.RawConn {
	var raw syscall.RawConn
	switch c := c.(type) {
	case *net.TCPConn:
		raw, _ = c.SyscallConn() // nil if it fails
	case *net.UnixConn:
		raw, _ = c.SyscallConn()
	}
	return raw
}

// open makes the set, unless there is one; mu is held. It is false if the system has none, which
// nobody asks for again.
func (p *poller) open() bool {
	if p.set != nil {
		return true
	}
	p.ended = true
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return false
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that the runtime waits for it
		_ = unix.Close(fd)
		return false
	}
	set := os.NewFile(uintptr(fd), "epoll")
	raw, err := set.SyscallConn()
	if err != nil || set.SetReadDeadline(time.Time{}) != nil { // the runtime does not wait for it
		set.Close()
		return false
	}
	p.set, p.fd, p.watches, p.ended = set, fd, make(map[uint64]*watch), false
	go p.run(raw) // ends when the set is closed
	return true
}

// control has the set wait once for a socket, or not any more; mu is held.
func (p *poller) control(do int, socket syscall.RawConn, number uint64) error {
	event := unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(number), Pad: int32(number >> 32),
	}
	var err error
	return errors.Join(socket.Control(func(fd uintptr) { err = unix.EpollCtl(p.fd, do, int(fd), &event) }), err)
}

// remove does not wait for a watch any more, whose mu is held. The system has removed a connection
// that was closed.
func (p *poller) remove(w *watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	delete(p.watches, w.number)
	_ = p.control(unix.EPOLL_CTL_DEL, w.socket, w.number)
}

// read takes one byte of the connection of a watch, whose mu is held. Where nothing has come, it
// waits again.
func (p *poller) read(w *watch) (first byte, n int, waits bool) {
	var b [1]byte
	var err error
	if w.socket.Control(func(fd uintptr) {
		for {
			if n, err = unix.Read(int(fd), b[:]); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}) != nil || !errors.Is(err, unix.EAGAIN) {
		return b[0], n, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return 0, 0, !p.ended && p.control(unix.EPOLL_CTL_MOD, w.socket, w.number) == nil
}

// run tells watches of what has come, until the set is closed.
func (p *poller) run(set syscall.RawConn) {
	var events [64]unix.EpollEvent
	for {
		var n int
		err := set.Read(func(fd uintptr) bool {
			var err error
			for n, err = unix.EpollWait(int(fd), events[:], 0); errors.Is(err, unix.EINTR); {
				n, err = unix.EpollWait(int(fd), events[:], 0)
			}
			return n > 0
		})
		if err != nil {
			return
		}
		for _, e := range events[:n] {
			number := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
			if w := p.find(number); w != nil {
				w.ready(number)
			}
		}
	}
}

func (p *poller) find(number uint64) *watch {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watches[number]
}

// end ends the goroutine of run. No request is under way.
func (p *poller) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.set != nil {
		p.set.Close()
	}
}
