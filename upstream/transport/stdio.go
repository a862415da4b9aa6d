package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
)

// stopGrace is how long a process may take to end after its stdin was closed, and again
// after it was asked to terminate.
const stopGrace = 2 * time.Second

// exitWait bounds the wait for the exit of a process whose stdout has ended or whose stdin
// is closed: it may go on. lastWordsWait bounds the time from its exit until its group is
// dead and its stderr was read.
const (
	exitWait      = 2 * time.Second
	lastWordsWait = child.EndWait
)

// Process is implemented by links to a process.
type Process interface {
	// Tail returns the last lines that the process has written to its stderr.
	Tail() Tail
	// Stray returns how many lines the process has written to its stdout that are no
	// messages, and the beginning of the first of them, safe to print.
	Stray() (lines int64, first string)
}

// maxStray is how many lines of a process that are no messages are kept among those of its
// stderr, so that they do not push these out.
const maxStray = 20

var _ Process = (*processLink)(nil)

// Tail is the end of the stderr of a process.
type Tail struct {
	// Process identifies the process among those of a server; 0 is none.
	Process int64
	// Ended is how many lines the process has written. Lines has the last of them.
	Ended int
	Lines []string
	// Cause says how the process ended; empty while it runs.
	Cause string
}

// processLink is a link to a process that it has started.
type processLink struct {
	*pipe
	proc *child.Process
	log  *slog.Logger
}

// dialStdio starts the process of a server.
func dialStdio(ctx context.Context, o *Options, inbound func(mcp.Message)) (Link, error) {
	// The process lives until the link is closed, not only until the context ends.
	spec := child.Spec{Command: o.Command, Args: o.Args, Dir: o.Dir, Env: o.Env}
	if o.Sandbox != nil {
		spec.Prepare = sandbox.Child(*o.Sandbox)
	}
	proc, err := child.Start(context.WithoutCancel(ctx), spec)
	if err != nil {
		return nil, err
	}
	p := &processLink{pipe: newPipe(o, proc.Stdout(), proc.Stdin(), inbound), proc: proc, log: o.Log}
	p.lastWords, p.hangUp = p.ending, p.end
	p.onStray = func(line string) {
		if p.stray.Load() <= maxStray {
			proc.Note(child.StdoutNote + line)
		}
	}
	p.start()
	return p, nil
}

// Tail implements [Process].
func (p *processLink) Tail() Tail {
	lines, ended := p.proc.Tail()
	return Tail{Process: p.proc.Began().UnixNano(), Ended: ended, Lines: lines}
}

// errStdoutEnded is the cause if a process closes its stdout and goes on.
var errStdoutEnded = errors.New("the process closed its stdout")

// ending returns the cause of the loss of a process, one of whose pipes has failed with
// err. The exit of a process shows at several pipes in any order. So the exit is reported
// with the last words on stderr, whichever pipe was first.
func (p *processLink) ending(writing bool, err error) error {
	switch {
	case writing:
		err = fmt.Errorf("write to the process: %w", err)
	case errors.Is(err, io.EOF):
		err = errStdoutEnded
	}
	if !endsWithin(p.proc.Exited(), exitWait) {
		return err
	}
	if !endsWithin(p.proc.Done(), lastWordsWait) {
		return fmt.Errorf("the process ended, and something of it lives on: %w", err)
	}
	return fmt.Errorf("the process ended: %w", p.proc.Err())
}

// endsWithin waits for c, at most for d.
func endsWithin(c <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}

// end ends the process.
func (p *processLink) end(ctx context.Context) {
	if err := p.proc.Stop(ctx, stopGrace); err != nil {
		p.log.Error("the process does not end", "err", err)
	}
}
