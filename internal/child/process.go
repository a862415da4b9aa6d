package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// groupSettle is how long the rest of a group gets, after its leader has
	// exited, to end by itself: npx and uvx may go before the server they run.
	groupSettle = time.Second
	// drainWait is how long output is waited for once the group is dead.
	// Something that left the group may hold a pipe open for ever.
	drainWait = 200 * time.Millisecond
	// drainBytes is how much standard output is read once the group is dead;
	// no pipe holds more.
	drainBytes = 1 << 20
	// killWait is how long Stop waits for the dead.
	killWait = 5 * time.Second

	// EndWait is how long Done may follow Exited at the most.
	EndWait = groupSettle + drainWait + killWait
)

// Spec says what to run.
type Spec struct {
	// Command is a path, relative to Dir if it is not absolute, or a name to
	// look up in the PATH of Env.
	Command string
	Args    []string
	// Dir is the working directory; empty is the gateway's own.
	Dir string
	// Env is the whole environment as NAME=value; nothing is added to it.
	Env []string
	// StderrLines and StderrBytes limit what is kept of the standard error;
	// zero is 200 lines and 64 KiB.
	StderrLines, StderrBytes int
}

// Process is a child process with all it starts, for as long as that stays in
// its process group (Unix) or job (Windows, where nothing can leave). The group
// ends with its leader: what is left then is told to terminate and, within a
// second, killed. However the gateway ends, the group ends with it: on Linux the
// system kills the leader, and everywhere package orphan sees to the rest.
//
// All methods may be called concurrently.
type Process struct {
	command string
	stdin   *os.File
	stdout  *childOutput
	stderr  *Lines
	group   Group
	began   time.Time
	exited  chan struct{}
	done    chan struct{}

	stopping atomic.Bool // the gateway wants the end
	exit     *ExitError  // set before done is closed
}

// Start starts the command of spec in a process group of its own. ctx is
// for the life of the process, not for its start alone: its end kills the group
// at once, so that a caller who goes away leaves nothing behind. Stop ends it
// gently before. The caller reads Stdout to its end, or closes it.
//
// The error says which command could not be started, where, and why.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Command, err)
	}
	path, err := Look(spec.Command, spec.Dir, spec.Env)
	if err != nil {
		return nil, err
	}
	pipes, err := OpenPipes()
	if err != nil {
		return nil, fmt.Errorf("start %s: open its pipes: %w", spec.Command, err)
	}
	p := &Process{
		command: spec.Command,
		stdin:   pipes.Stdin,
		stdout:  &childOutput{file: pipes.Stdout, left: drainBytes},
		stderr:  NewLines(spec.StderrLines, spec.StderrBytes),
		exited:  make(chan struct{}),
		done:    make(chan struct{}),
	}
	started := make(chan error, 1)
	go p.run(ctx, path, spec, pipes, started)
	select {
	case err = <-started:
	case <-ctx.Done():
		// The goroutine still starts it, if the system ever lets it, and ends
		// it at once.
		err = context.Cause(ctx)
	}
	if err != nil {
		pipes.Stdout.Close()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return p, nil
}

// run starts the process, waits for its end, ends the rest of its group and
// reaps it.
func (p *Process) run(ctx context.Context, path string, spec Spec, pipes *Pipes, started chan<- error) {
	p.began = time.Now()
	cmd := &exec.Cmd{
		Path: path, Args: append([]string{spec.Command}, spec.Args...), Dir: spec.Dir,
		Env: append([]string{}, spec.Env...), // never nil, which would stand for ours
	}
	pipes.Connect(cmd)
	err := p.group.Start(cmd, GuardedFirst)
	pipes.CloseChild()
	if err != nil {
		pipes.Close()
		started <- err
		return
	}
	unhook := context.AfterFunc(ctx, func() {
		p.stopping.Store(true)
		p.group.Kill()
	})
	defer unhook()
	stderrEnded := make(chan struct{})
	go func() {
		defer close(stderrEnded)
		_, _ = io.Copy(p.stderr, pipes.Stderr) // its end is all there is to learn
		p.stderr.End()
		pipes.Stderr.Close()
	}()
	started <- nil

	waitErr := p.group.AwaitExit()
	close(p.exited)
	exit := &ExitError{Command: p.command, After: time.Since(p.began), Stopped: p.stopping.Load()}
	p.stdin.Close() // frees a writer, where something still holds the other end
	p.group.Terminate()
	settle := time.NewTimer(groupSettle)
	defer settle.Stop()
	select {
	case <-stderrEnded: // by all who had it, so most likely nobody is left
	case <-settle.C:
	}
	if exit.Stopped {
		exit.Cause = context.Cause(ctx)
	}
	p.group.End()
	if state, err := cmd.Process.Wait(); err != nil {
		exit.Err = err
	} else {
		exit.Code, exit.Signal = state.ExitCode(), exitSignal(state)
	}
	exit.Err = errors.Join(exit.Err, waitErr)
	p.stdout.drain()
	_ = pipes.Stderr.SetReadDeadline(time.Now().Add(drainWait)) // closed, or its job is dead
	<-stderrEnded
	exit.LastLine = p.stderr.Last()
	p.exit = exit
	close(p.done)
}

// Stdin is the standard input. A write blocks while the process does not read,
// until it exits or Stdin is closed.
func (p *Process) Stdin() io.WriteCloser { return p.stdin }

// Stdout is the standard output, for one reader. After the exit it gives what
// was written before and then io.EOF, whoever still holds the other end.
func (p *Process) Stdout() io.ReadCloser { return p.stdout }

// Stderr returns the last lines of the standard error, oldest first, safe to
// print.
func (p *Process) Stderr() []string { return p.stderr.Lines() }

// Tail returns the lines of the standard error that have ended, as far as they
// are kept, oldest first, and how many have ended since the start.
func (p *Process) Tail() (lines []string, ended int) { return p.stderr.Tail() }

// Began returns when the process was started.
func (p *Process) Began() time.Time { return p.began }

// Exited is closed when the process itself has exited; Done follows within
// groupSettle and drainWait, and with it how it ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Done is closed when the process has exited and was reaped, its group is dead
// and its standard error was read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says for a person how the process ended, as an *ExitError. It is nil
// before Done is closed and never after.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.exit
	default:
		return nil
	}
}

// Stop ends the process: it closes the standard input, waits for grace, tells
// the group to terminate, waits for grace again, and kills the group. When ctx
// ends, the rest follows at once. It returns when the process has been reaped,
// at once if it was before; an error only for one that outlives its killing,
// which it is then still watched for.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	p.stopping.Store(true)
	p.stdin.Close()
	if p.endsWithin(ctx, grace) {
		return nil
	}
	p.group.Terminate()
	if p.endsWithin(ctx, grace) {
		return nil
	}
	p.group.Kill()
	if p.endsWithin(context.WithoutCancel(ctx), killWait) {
		return nil
	}
	return fmt.Errorf("%s (process %d) is still there %v after it was killed: the system does not let go of it, see what it waits for",
		p.command, p.group.PID(), killWait)
}

// endsWithin waits for the end of the process, but no longer than d or ctx.
func (p *Process) endsWithin(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ExitError is how a process ended.
type ExitError struct {
	Command  string
	Code     int           // exit code, -1 where a signal ended it
	Signal   string        // name of that signal, or empty
	After    time.Duration // how long it lived
	Stopped  bool          // the gateway ended it
	Cause    error         // the cause of the context whose end ended it, or nil
	LastLine string        // of its standard error, safe to print
	Err      error         // why Code and Signal are not known, or nil
}

// maxLastLine is how much of the last line is shown.
const maxLastLine = 200

// Error returns one sentence.
func (e *ExitError) Error() string {
	var b strings.Builder
	b.WriteString(e.Command)
	switch {
	case e.Cause != nil:
		fmt.Fprintf(&b, " was stopped (%v):", e.Cause)
	case e.Stopped:
		b.WriteString(" was stopped:")
	}
	switch {
	case e.Err != nil:
		fmt.Fprintf(&b, " ended in an unknown way (%v)", e.Err)
	case e.Signal != "":
		fmt.Fprintf(&b, " ended by signal %s", e.Signal)
	default:
		fmt.Fprintf(&b, " exited with code %d", e.Code)
	}
	if e.After < time.Second {
		b.WriteString(" within a second") // always the same for one that cannot start
	} else {
		fmt.Fprintf(&b, " after %v", e.After.Round(time.Millisecond))
	}
	if line := e.LastLine; line != "" {
		if len(line) > maxLastLine {
			line = strings.ToValidUTF8(line[:maxLastLine], "") + "…"
		}
		fmt.Fprintf(&b, "; its last line on stderr: %s", line)
	}
	return b.String()
}

// Unwrap returns Err and Cause, as far as there are any.
func (e *ExitError) Unwrap() []error {
	var all []error
	for _, err := range []error{e.Err, e.Cause} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}
