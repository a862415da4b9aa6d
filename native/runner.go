package native

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/child"
)

const (
	// drainTime is how long the output of a process is waited for once it has
	// ended: something that it started may hold it open for ever.
	drainTime = 200 * time.Millisecond
	// handshakeBytes is how long the first line of a shipped plugin may be.
	handshakeBytes = 4 << 10
)

// runner is one process: the part of go-plugin that starts, watches and ends it.
// It leads a process group of its own and has nothing of ours but three pipes. It is
// killed with the gateway, however that ends (package child).
type runner struct {
	name string
	// What is run is set before it is started.
	tree tree
	cmd  *exec.Cmd // of the tree
	// check refuses addresses that the process names; nil is none.
	check func(network, address string) error
	// open is kept until the process has been started from it.
	open *os.File
	// hello is the first that is written to the process; nil is nothing.
	hello []byte
	// wire tells that the process serves on its own standard input and output,
	// behind its first line.
	wire bool

	pipes  *child.Pipes   // our ends of stdin are open until the process has ended
	line   *io.PipeReader // the first line of stdout, where wire is set
	lineIn *io.PipeWriter
	behind *bufio.Reader // what of stdout is behind that line
	heard  atomic.Uint64 // bytes from a process that serves there

	started sync.Once
	number  atomic.Int64  // of the process; 0 before it has been started
	done    chan struct{} // closed when the process has ended
	err     error         // set before
}

// tree is a process with all that it starts. Only Kill may be called by others
// than the one that has started it.
type tree interface {
	Start() error
	Wait() error // when it returns, nothing that it has started runs any more
	Kill()       // once it has been started
	Close() error
}

// group is a tree that nothing confines. Its standard files are files.
type group struct {
	child.Group

	cmd   *exec.Cmd
	guard child.Guard
}

// Start implements tree.
func (g *group) Start() error {
	g.cmd.Env = g.cmd.Environ() // with PWD, as os/exec would add it
	return g.Group.Start(g.cmd, g.guard)
}

// Wait implements tree.
func (g *group) Wait() error {
	watched := g.AwaitExit()
	g.End() // whatever it has left
	state, err := g.cmd.Process.Wait()
	if err == nil && !state.Success() {
		err = &exec.ExitError{ProcessState: state}
	}
	return errors.Join(err, watched)
}

// Close implements tree.
func (g *group) Close() error { return nil }

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

func (r *runner) start() (err error) {
	if r.open != nil {
		defer r.open.Close()
	}
	if r.pipes, err = child.OpenPipes(); err != nil {
		return fmt.Errorf("open its pipes: %w", err)
	}
	r.pipes.Connect(r.cmd)
	err = r.tree.Start()
	r.pipes.CloseChild()
	if err != nil {
		r.pipes.Close()
		close(r.done)
		return errors.Join(err, r.tree.Close())
	}
	r.number.Store(int64(r.cmd.Process.Pid))
	go r.watch()        // ends with the process
	if r.hello != nil { // a pipe may be full before it is read
		go func() { _, _ = r.pipes.Stdin.Write(r.hello) }() // ends with the process at the latest
	}
	if r.wire {
		r.behind = bufio.NewReaderSize(r.pipes.Stdout, 64<<10)
		go r.firstLine()
	}
	return nil
}

// watch waits for the end of the process.
func (r *runner) watch() {
	defer r.tree.Close()
	if r.err = r.tree.Wait(); r.err == nil {
		r.err = errors.New("it exited by itself")
	}
	close(r.done)
	r.pipes.Stdin.Close()
	deadline := time.Now().Add(drainTime)
	_ = r.pipes.Stdout.SetReadDeadline(deadline)
	_ = r.pipes.Stderr.SetReadDeadline(deadline)
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
	r.pipes.Stdout.Close()
	r.pipes.Stderr.Close()
	return nil // the supervisor says why it ended
}

// Kill implements runner.Runner.
func (r *runner) Kill(context.Context) error {
	select {
	case <-r.done:
	default:
		r.tree.Kill()
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
	return r.pipes.Stdout
}

// Stderr implements runner.Runner.
func (r *runner) Stderr() io.ReadCloser { return r.pipes.Stderr }

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
