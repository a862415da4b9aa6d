package http1_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// script is a connection whose client has sent everything, in parts, and has closed its
// direction then. A read is never given more than one part.
type script struct {
	mu     sync.Mutex
	parts  [][]byte
	by     time.Time // the deadline of reads
	out    bytes.Buffer
	closed chan struct{}
	once   sync.Once
}

// split makes a script of a text. Each bit of cuts that is set ends a part; its bits are used
// again from the first one when none is left.
func split(text []byte, cuts uint64) *script {
	s := &script{closed: make(chan struct{})}
	begin := 0
	for i := range text {
		if cuts>>((i+i/64)%64)&1 == 1 && i > begin {
			s.parts = append(s.parts, text[begin:i])
			begin = i
		}
	}
	if begin < len(text) {
		s.parts = append(s.parts, text[begin:])
	}
	return s
}

// Read implements [net.Conn].
func (s *script) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isClosed():
		return 0, net.ErrClosed
	case !s.by.IsZero() && !time.Now().Before(s.by):
		return 0, os.ErrDeadlineExceeded
	case len(s.parts) == 0:
		return 0, io.EOF
	}
	n := copy(p, s.parts[0])
	if s.parts[0] = s.parts[0][n:]; len(s.parts[0]) == 0 {
		s.parts = s.parts[1:]
	}
	return n, nil
}

// Write implements [net.Conn].
func (s *script) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return 0, net.ErrClosed
	}
	return s.out.Write(p)
}

func (s *script) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// Close implements [net.Conn].
func (s *script) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// CloseWrite is what a TCP connection has.
func (s *script) CloseWrite() error { return nil }

// SetReadDeadline implements [net.Conn].
func (s *script) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by = t
	return nil
}

// SetDeadline implements [net.Conn].
func (s *script) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn]. Writes never wait.
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements [net.Conn].
func (s *script) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// RemoteAddr implements [net.Conn].
func (s *script) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234} }

// conns is a listener of connections that a test makes.
type conns struct {
	made   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newConns() *conns { return &conns{made: make(chan net.Conn, 10), closed: make(chan struct{})} }

// Accept implements [net.Listener].
func (l *conns) Accept() (net.Conn, error) {
	select {
	case c := <-l.made:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *conns) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *conns) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
