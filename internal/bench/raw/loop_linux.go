package raw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// readStep is the least room for one read, in bytes.
const readStep = 16 << 10

// conn is a connection that does not block. Only its loop uses it.
type conn struct {
	fd      int
	in, out []byte
	waits   bool // for room to write
}

// read reads what is there. io.EOF says that the other end has closed.
func (c *conn) read() error {
	for {
		if cap(c.in)-len(c.in) < readStep {
			c.in = append(make([]byte, 0, 2*cap(c.in)+2*readStep), c.in...)
		}
		room := c.in[len(c.in):cap(c.in)]
		n, err := unix.Read(c.fd, room)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read: %w", err)
		case n == 0:
			return io.EOF
		}
		c.in = c.in[:len(c.in)+n]
		if n < len(room) {
			return nil // another read would find nothing
		}
	}
}

// taken forgets the first bytes of what was read.
func (c *conn) taken(n int) { c.in = c.in[:copy(c.in, c.in[n:])] }

// write writes what there is room for.
func (c *conn) write() error {
	for len(c.out) > 0 {
		n, err := unix.Write(c.fd, c.out)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("write: %w", err)
		}
		c.out = c.out[:copy(c.out, c.out[n:])]
	}
	return nil
}

// poller waits for connections.
type poller struct {
	fd     int
	events [64]unix.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &poller{fd: fd}, nil
}

// add waits for a descriptor from now on.
func (p *poller) add(fd int) error {
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// flush writes what there is room for, and waits for room for the rest.
func (p *poller) flush(c *conn) error {
	if err := c.write(); err != nil {
		return err
	}
	if waits := len(c.out) > 0; waits != c.waits {
		events := uint32(unix.EPOLLIN)
		if waits {
			events |= unix.EPOLLOUT
		}
		if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, c.fd, &unix.EpollEvent{Events: events, Fd: int32(c.fd)}); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
		c.waits = waits
	}
	return nil
}

// wait returns the descriptors that are ready, at the latest after most.
func (p *poller) wait(most time.Duration) ([]unix.EpollEvent, error) {
	// epoll_wait counts in milliseconds.
	if most < time.Millisecond && most > 0 {
		timeout := unix.NsecToTimespec(int64(most))
		if _, err := unix.Ppoll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, &timeout, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("poll: %w", err)
		}
		most = 0
	}
	n, err := unix.EpollWait(p.fd, p.events[:], int(most/time.Millisecond))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return p.events[:max(n, 0)], nil
}

func (p *poller) close() { _ = unix.Close(p.fd) }

// dial connects to an address of this machine, such as 127.0.0.1:7777.
func dial(ctx context.Context, address string) (*conn, error) {
	d := net.Dialer{Timeout: dialTime}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	fd, err := descriptor(c.(*net.TCPConn))
	return &conn{fd: fd}, err
}

// dialTime bounds one connection's begin.
const dialTime = 5 * time.Second

// descriptor returns a descriptor of its own that does not block.
func descriptor(c syscall.Conn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("descriptor: %w", err)
	}
	fd, failed := -1, error(nil)
	err = raw.Control(func(own uintptr) { fd, failed = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, failed); err != nil {
		return -1, fmt.Errorf("descriptor: %w", err)
	}
	return fd, nil // it does not block, as those of package net do not
}
