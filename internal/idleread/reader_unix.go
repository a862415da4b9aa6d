//go:build unix

package idleread

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// init lets the reader wait without a buffer, where the connection has a socket.
func (r *Reader) init() {
	if socket, ok := r.conn.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			r.raw, r.try = raw, r.readWithoutWaiting
		}
	}
}

func (r *Reader) next() (*Buffer, int, error) {
	if err := r.raw.Read(r.try); err != nil {
		return nil, 0, err
	}
	got := r.got
	r.got = read{}
	switch {
	case got.err != nil:
		return got.buf, 0, &net.OpError{
			Op: "read", Net: "tcp", Source: r.conn.LocalAddr(), Addr: r.conn.RemoteAddr(), Err: os.NewSyscallError("read", got.err),
		}
	case got.n == 0:
		return got.buf, 0, io.EOF
	}
	return got.buf, got.n, nil
}

// readWithoutWaiting is false where nothing has come yet.
func (r *Reader) readWithoutWaiting(fd uintptr) bool {
	b := Take()
	n, err := syscall.Read(int(fd), b[:])
	for errors.Is(err, syscall.EINTR) {
		n, err = syscall.Read(int(fd), b[:])
	}
	if errors.Is(err, syscall.EAGAIN) {
		b.Free()
		return false
	}
	r.got = read{b, n, err}
	return true
}
