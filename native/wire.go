package native

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// wire is the connection to a shipped plugin: its standard input and output. No other
// process of the machine can take part in it.
type wire struct {
	in  *bufio.Reader
	out *os.File // read side of its standard output, for deadlines
	to  *os.File
	// heard counts the bytes received from the process; they show that it is alive.
	heard *atomic.Uint64
}

// dialer returns a function that connects to the process of a runner, once. What the
// process reads first is written before anything of the connection.
func (r *runner) dialer() func(context.Context, string) (net.Conn, error) {
	var used atomic.Bool
	return func(ctx context.Context, _ string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, errors.New("the connection to the process is lost")
		}
		if err := r.greet(ctx); err != nil {
			return nil, fmt.Errorf("write to the process: %w", err)
		}
		return &wire{in: r.behind, out: r.pipes.Stdout, to: r.pipes.Stdin, heard: &r.heard}, nil
	}
}

// greet writes hello, which may be more than a process that does not read can take.
func (r *runner) greet(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = r.pipes.Stdin.SetWriteDeadline(time.Now()) })
	_, err := r.pipes.Stdin.Write(r.hello)
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}

// Read implements [net.Conn].
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	w.heard.Add(uint64(n)) // never negative
	return n, err
}

// Write implements [net.Conn].
func (w *wire) Write(p []byte) (int, error) { return w.to.Write(p) }

// Close implements [net.Conn]. The process sees the end of its input, and ends.
func (w *wire) Close() error { return errors.Join(w.to.Close(), w.out.Close()) }

// LocalAddr implements [net.Conn].
func (w *wire) LocalAddr() net.Addr { return pipeAddr{} }

// RemoteAddr implements [net.Conn].
func (w *wire) RemoteAddr() net.Addr { return pipeAddr{} }

// SetDeadline implements [net.Conn].
func (w *wire) SetDeadline(t time.Time) error {
	return errors.Join(w.SetReadDeadline(t), w.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.Conn].
func (w *wire) SetReadDeadline(t time.Time) error { return w.out.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn].
func (w *wire) SetWriteDeadline(t time.Time) error { return w.to.SetWriteDeadline(t) }

type pipeAddr struct{}

// Network implements [net.Addr].
func (pipeAddr) Network() string { return "pipe" }

// String implements [net.Addr].
func (pipeAddr) String() string { return "stdio" }
