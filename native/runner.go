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
	// drainTime is how long to wait for the output of a process that has ended: a
	// process that it started may hold it open for ever.
	drainTime = 200 * time.Millisecond
	// handshakeBytes limits the first line of a shipped plugin.
	handshakeBytes = 4 << 10
)

// runner is one process, for go-plugin: it starts the process, watches it and kills it.
// The process leads its own group and inherits three pipes and nothing else. It ends with
// the gateway, however that ends (package child).
type runner struct {
	name string
	// Set before the start.
	tree tree
	cmd  *exec.Cmd // of the tree
	// check refuses addresses on which the process says it serves; nil refuses none.
	check func(network, address string) error
	// open is the program, which is closed after the start; nil without a verified copy.
	open *os.File
	// hello is what the wire begins with; nil where there is no wire.
	hello []byte
	// wire is true if the process serves on its standard input and output, after its
	// first line.
	wire bool

	pipes  *child.Pipes   // stdin is open until the process has ended
	line   *io.PipeReader // the first line of stdout, if wire is set
	lineIn *io.PipeWriter
	behind *bufio.Reader // stdout after that line
	heard  atomic.Uint64 // bytes received on the wire

	started sync.Once
	number  atomic.Int64  // of the process; 0 before the start
	done    chan struct{} // closed when the process has ended
	err     error         // set before
}

// tree is a process with everything that it starts. Kill may be called concurrently;
// the other methods belong to the goroutine that starts it.
type tree interface {
	Start() error
	Wait() error // kills what the process has started
	Kill()       // after the start
	Close() error
}

// processGroup is an unconfined tree. Its standard files must be *os.File.
type processGroup struct {
	child.Group

	cmd   *exec.Cmd
	guard child.Guard
}

// Start implements tree.
func (g *processGroup) Start() error {
	g.cmd.Env = g.cmd.Environ() // adds PWD, as os/exec does
	return g.Group.Start(g.cmd, g.guard)
}

// Wait implements tree.
func (g *processGroup) Wait() error {
	watched := g.AwaitExit()
	g.End() // kills what the process left
	state, err := g.cmd.Process.Wait()
	if err == nil && !state.Success() {
		err = &exec.ExitError{ProcessState: state}
	}
	return errors.Join(err, watched)
}

// Close implements tree.
func (g *processGroup) Close() error { return nil }

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
	go r.watch() // ends with the process
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

// firstLine passes the line of the handshake to go-plugin. The rest is the wire.
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
	_, _ = r.lineIn.Write(line) // fails if nobody reads it any more
}

// ended returns why the process has ended.
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
	return nil // the supervisor reports why it ended
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
