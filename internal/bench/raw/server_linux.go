package raw

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// maxConns bounds the connections of a server; more are closed at once.
const maxConns = 4096

// stopStep is how soon a loop notices that its context has ended.
const stopStep = 50 * time.Millisecond

// server is the loop of Serve and its connections.
type server struct {
	*poller
	listeners []int
	answer    Answer
	conns     map[int]*conn
}

// Serve answers the requests of some listeners until ctx ends. The listeners stay the caller's.
func Serve(ctx context.Context, answer Answer, listeners ...*net.TCPListener) error {
	p, err := newPoller()
	if err != nil {
		return err
	}
	s := &server{poller: p, answer: answer, conns: map[int]*conn{}}
	defer s.close()
	for _, l := range listeners {
		fd, err := descriptor(l)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, fd)
		if err := p.add(fd); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		ready, err := p.wait(stopStep)
		if err != nil {
			return err
		}
		for i := range ready {
			fd := int(ready[i].Fd)
			if c := s.conns[fd]; c != nil {
				s.serve(c)
			} else if err := s.accept(fd); err != nil {
				return err
			}
		}
	}
	return nil
}

// accept takes the connections that have arrived at a listener.
func (s *server) accept(listener int) error {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED):
			continue
		case err != nil:
			return fmt.Errorf("accept: %w", err)
		case len(s.conns) == maxConns:
			_ = unix.Close(fd)
			continue
		}
		if err := errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1), s.add(fd)); err != nil {
			return err
		}
		s.conns[fd] = &conn{fd: fd}
	}
}

// serve answers what a connection has sent. A connection with an error ends.
func (s *server) serve(c *conn) {
	err := c.read()
	for err == nil {
		var request Frame
		var size int
		if request, size, err = parse(c.in); size == 0 {
			break
		}
		c.out = s.answer(&request, c.out)
		c.taken(size)
	}
	if err == nil {
		err = s.flush(c)
	}
	if err != nil {
		delete(s.conns, c.fd)
		_ = unix.Close(c.fd)
	}
}

func (s *server) close() {
	for fd := range s.conns {
		_ = unix.Close(fd)
	}
	for _, fd := range s.listeners {
		_ = unix.Close(fd)
	}
	s.poller.close()
}
