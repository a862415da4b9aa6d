package native

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/orphan"
)

const (
	// drainTime is how long the output of a process is waited for once it has
	// ended: something that it started may hold it open for ever.
	drainTime = 200 * time.Millisecond
	// handshakeBytes is how long the first line of a shipped plugin may be.
	handshakeBytes = 4 << 10
)

// runner is one process: the part of go-plugin that starts, watches and ends it.
// It is the leader of a process group of its own and has nothing of ours but three
// pipes. It is killed with the gateway, however that ends: by the system where
// that can, and what it has started by what package orphan says.
type runner struct {
	name string
	// What is run is set before it is started.
	child child
	cmd   *exec.Cmd // of the child
	// check refuses addresses that the process names; nil is none.
	check func(network, address string) error
	// open is kept until the process has been started from it.
	open *os.File
	// hello is the first that is written to the process; nil is nothing.
	hello []byte
	// wire tells that the process serves on its own standard input and output,
	// behind its first line.
	wire bool

	stdin          *os.File // ours; open until the process has ended
	stdout, stderr *os.File
	line           *io.PipeReader // the first line of stdout, where wire is set
	lineIn         *io.PipeWriter
	behind         *bufio.Reader // what of stdout is behind that line
	heard          atomic.Uint64 // bytes from a process that serves there

	started sync.Once
	number  atomic.Int64  // of the process; 0 before it has been started
	done    chan struct{} // closed when the process has ended
	err     error         // set before
}

// child is a process with all that it starts. Only Kill may be called by others
// than the one that has started it.
type child interface {
	Start() error
	Wait() error // when it returns, nothing that it has started runs any more
	Kill()       // once it has been started
	Close() error
}

// plain is a child that nothing confines. Its standard files are files.
type plain struct {
	*exec.Cmd

	// alone tells that it starts no processes, or sees to their end itself, so that
	// nothing but itself can outlive the gateway.
	alone   bool
	guarded *orphan.Child
}

// Start implements child.
func (p *plain) Start() error {
	ownGroup(p.Cmd)
	if !p.alone {
		return p.startGuarded()
	}
	if !followsGateway {
		p.guarded = orphan.Expect()
	}
	if err := p.Cmd.Start(); err != nil {
		return err
	}
	p.guarded.Started(p.Process.Pid)
	return nil
}

// Wait implements child.
func (p *plain) Wait() error {
	state, err := p.Process.Wait()
	killGroup(p.Cmd) // whatever it has left
	p.guarded.Ended()
	if err == nil && !state.Success() {
		err = &exec.ExitError{ProcessState: state}
	}
	return err
}

// Kill implements child.
func (p *plain) Kill() { killGroup(p.Cmd) }

// Close implements child.
func (p *plain) Close() error { return nil }

func newRunner(name string, open *os.File, hello []byte, wire bool) *runner {
	r := &runner{name: name, open: open, hello: hello, wire: wire, done: make(chan struct{})}
	r.line, r.lineIn = io.Pipe()
	return r
}

// Start implements runner.Runner.
func (r *runner) Start(context.Context) (err error) {
	err = errors.New("a process is started once")
	r.started.Do(func() { err = r.start() })
	return err
}

func (r *runner) start() error {
	if r.open != nil {
		defer r.open.Close()
	}
	in, stdin, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("open its pipes: %w", err)
	}
	defer in.Close()
	stdout, out, err := os.Pipe()
	if err != nil {
		stdin.Close()
		return fmt.Errorf("open its pipes: %w", err)
	}
	defer out.Close()
	stderr, errs, err := os.Pipe()
	if err != nil {
		stdin.Close()
		stdout.Close()
		return fmt.Errorf("open its pipes: %w", err)
	}
	defer errs.Close()
	r.stdin, r.stdout, r.stderr = stdin, stdout, stderr
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = in, out, errs
	begun := make(chan error, 1)
	go r.watch(begun)
	if err := <-begun; err != nil {
		stdin.Close()
		stdout.Close()
		stderr.Close()
		return err
	}
	if r.hello != nil { // a pipe may be full before it is read
		go func() { _, _ = stdin.Write(r.hello) }() // ends with the process at the latest
	}
	if r.wire {
		r.behind = bufio.NewReaderSize(stdout, 64<<10)
		go r.firstLine()
	}
	return nil
}

// watch starts the process and waits for its end. It keeps to one thread, because
// on Linux a child is killed when the thread ends that started it.
func (r *runner) watch(begun chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer r.child.Close()
	err := r.child.Start()
	if err == nil {
		r.number.Store(int64(r.cmd.Process.Pid))
	}
	begun <- err
	if err != nil {
		close(r.done)
		return
	}
	err = r.child.Wait()
	if err == nil {
		err = errors.New("it exited by itself")
	}
	r.err = err
	close(r.done)
	r.stdin.Close()
	deadline := time.Now().Add(drainTime)
	_ = r.stdout.SetReadDeadline(deadline)
	_ = r.stderr.SetReadDeadline(deadline)
	_ = r.lineIn.CloseWithError(io.EOF)
}

// firstLine gives go-plugin the line of the handshake; what follows is not for it.
func (r *runner) firstLine() {
	line := make([]byte, 0, 128)
	for len(line) < handshakeBytes {
		c, err := r.behind.ReadByte()
		if err != nil {
			_ = r.lineIn.CloseWithError(io.EOF)
			return
		}
		if line = append(line, c); c == '\n' {
			break
		}
	}
	_, _ = r.lineIn.Write(line) // nobody reads it any more where it fails
}

// ended is why the process has ended.
func (r *runner) ended() error {
	<-r.done
	return r.err
}

func (r *runner) pid() int { return int(r.number.Load()) }

// Wait implements runner.Runner.
func (r *runner) Wait(context.Context) error {
	<-r.done
	r.stdout.Close()
	r.stderr.Close()
	return nil // the supervisor says why it ended
}

// Kill implements runner.Runner.
func (r *runner) Kill(context.Context) error {
	select {
	case <-r.done:
	default:
		r.child.Kill()
		<-r.done
	}
	return nil
}

// Diagnose implements runner.Runner.
func (r *runner) Diagnose(context.Context) string { return "" }

// Stdout implements runner.Runner.
func (r *runner) Stdout() io.ReadCloser {
	if r.wire {
		return r.line
	}
	return r.stdout
}

// Stderr implements runner.Runner.
func (r *runner) Stderr() io.ReadCloser { return r.stderr }

// Name implements runner.Runner.
func (r *runner) Name() string { return r.name }

// ID implements runner.Runner.
func (r *runner) ID() string { return strconv.Itoa(r.pid()) }

// PluginToHost implements runner.Runner.
func (r *runner) PluginToHost(network, addr string) (hostNetwork, hostAddr string, err error) {
	if r.check != nil {
		err = r.check(network, addr)
	}
	return network, addr, err
}

// HostToPlugin implements runner.Runner.
func (r *runner) HostToPlugin(network, addr string) (pluginNetwork, pluginAddr string, err error) {
	return network, addr, nil
}
