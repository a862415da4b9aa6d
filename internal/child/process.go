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
	// groupSettle is how long the rest of a group may take to end by itself after its
	// leader has exited: npx and uvx may exit before the server that they run.
	groupSettle = time.Second
	// drainWait is how long to read output once the group is dead. A process that left
	// the group may keep a pipe open for ever.
	drainWait = 200 * time.Millisecond
	// drainBytes bounds the standard output that is read once the group is dead; no
	// pipe holds more.
	drainBytes = 1 << 20
	// killWait is how long Stop waits after killing.
	killWait = 5 * time.Second

	// EndWait bounds the time from Exited to Done.
	EndWait = groupSettle + drainWait + killWait
)

// Spec is the command to run.
type Spec struct {
	// Command is a path, relative to Dir unless it is absolute, or a name to look up in
	// the PATH of Env.
	Command string
	Args    []string
	// Dir is the working directory; empty for the gateway's.
	Dir string
	// Env is the complete environment as NAME=value.
	Env []string
	// Prepare makes the command of the program at path, such as one that confines it. Nil
	// runs the program itself.
	Prepare func(path string, spec *Spec) (Prepared, error)
	// StderrLines and StderrBytes bound what is kept of the standard error; zero stands
	// for 200 lines and 64 KiB.
	StderrLines, StderrBytes int
}

// Prepared is a command that its maker starts.
type Prepared interface {
	// Command returns the command. Its standard files are set before the start.
	Command() *exec.Cmd
	// Start starts it as the leader of a group. After an error it has ended.
	Start(group *Group) error
	// Close removes what was made for it, once it has ended or was not started.
	Close() error
}

// Process is a child process with everything that it starts and that stays in its
// process group (Unix) or job (Windows, where nothing can leave). The group ends with
// its leader: the rest is terminated and, within a second, killed. However the gateway
// ends, the group ends with it: on Linux the system kills the leader, and package
// orphan handles the rest everywhere.
//
// All methods may be called concurrently.
type Process struct {
	command string
	stdin   *os.File
	stdout  *childOutput
	stderr  *Lines
	notes   io.Writer // among the lines of stderr
	group   Group
	began   time.Time
	exited  chan struct{}
	done    chan struct{}

	stopping atomic.Bool // Stop was called
	exit     *ExitError  // set before done is closed
}

// Start starts the command of spec in its own process group. ctx is for the life of the
// process, not only for its start: its end kills the group at once. Stop ends the
// process gently. The caller must read Stdout to its end, or close it.
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
	p.notes = p.stderr.Stream()
	started := make(chan error, 1)
	go p.run(ctx, path, spec, pipes, started)
	select {
	case err = <-started:
	case <-ctx.Done():
		// The goroutine may still start it later, and then ends it at once.
		err = context.Cause(ctx)
	}
	if err != nil {
		pipes.Stdout.Close()
		return nil, fmt.Errorf("start %s: %w", spec.Command, unstartable(path, err))
	}
	return p, nil
}

// run starts the process, waits for its end, ends the rest of its group and reaps it.
func (p *Process) run(ctx context.Context, path string, spec Spec, pipes *Pipes, started chan<- error) {
	p.began = time.Now()
	prepared, err := spec.prepare(path)
	if err == nil {
		pipes.Connect(prepared.Command())
		err = prepared.Start(&p.group)
	}
	pipes.CloseChild()
	if err != nil {
		pipes.Close()
		if prepared != nil {
			err = errors.Join(err, prepared.Close())
		}
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
		_, _ = io.Copy(p.stderr, pipes.Stderr) // an error only means its end
		p.stderr.End()
		pipes.Stderr.Close()
	}()
	started <- nil
	cmd := prepared.Command()

	waitErr := p.group.AwaitExit()
	close(p.exited)
	exit := &ExitError{Command: p.command, After: time.Since(p.began), Stopped: p.stopping.Load()}
	p.stdin.Close() // unblocks a writer if another process holds the other end
	p.group.Terminate()
	settle := time.NewTimer(groupSettle)
	defer settle.Stop()
	select {
	case <-stderrEnded: // closed by all holders, so the group is probably empty
	case <-settle.C:
	}
	if exit.Stopped {
		exit.Cause = context.Cause(ctx)
	}
	p.group.End()
	if state, err := cmd.Process.Wait(); err != nil {
		exit.Err = err
	} else {
		cmd.ProcessState = state
		exit.Code, exit.Signal = state.ExitCode(), exitSignal(state)
	}
	exit.Err = errors.Join(exit.Err, waitErr)
	p.stdout.drain()
	_ = pipes.Stderr.SetReadDeadline(time.Now().Add(drainWait)) // fails if it is closed, or its job is dead
	<-stderrEnded
	exit.LastLine = LastWords(p.stderr.Lines())
	exit.Err = errors.Join(exit.Err, prepared.Close())
	p.exit = exit
	close(p.done)
}

// prepare returns the command for a program.
func (s *Spec) prepare(path string) (Prepared, error) {
	if s.Prepare != nil {
		return s.Prepare(path, s)
	}
	return plain{&exec.Cmd{
		Path: path, Args: append([]string{s.Command}, s.Args...), Dir: s.Dir,
		Env: append([]string{}, s.Env...), // never nil, which would stand for ours
	}}, nil
}

// plain is a program that runs as it is.
type plain struct{ cmd *exec.Cmd }

func (p plain) Command() *exec.Cmd       { return p.cmd }
func (p plain) Start(group *Group) error { return group.Start(p.cmd, GuardedFirst) }
func (plain) Close() error               { return nil }

// Stdin is the standard input. A write blocks while the process does not read, until it
// exits or Stdin is closed.
func (p *Process) Stdin() io.WriteCloser { return p.stdin }

// Stdout is the standard output, for one reader. After the exit it returns the
// remaining output and then io.EOF, even if another process holds the other end.
func (p *Process) Stdout() io.ReadCloser { return p.stdout }

// Note adds a line to those of the standard error, for people who look for what went wrong.
func (p *Process) Note(line string) { _, _ = p.notes.Write([]byte(line + "\n")) }

// Stderr returns the last lines of the standard error, oldest first, safe to print.
func (p *Process) Stderr() []string { return p.stderr.Lines() }

// Tail returns the kept finished lines of the standard error, oldest first, and the
// total number of finished lines.
func (p *Process) Tail() (lines []string, ended int) { return p.stderr.Tail() }

// Began returns when the process was started.
func (p *Process) Began() time.Time { return p.began }

// Exited is closed when the process itself has exited. Done follows within groupSettle
// and drainWait.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Done is closed when the process was reaped, its group is dead and its standard error
// was read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the process ended, as an *ExitError. It is nil until Done is closed.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.exit
	default:
		return nil
	}
}

// Stop ends the process. It closes the standard input, waits for grace, terminates the
// group, waits for grace again, and kills the group. When ctx ends, it skips the waits.
// It returns when the process has been reaped. The error means that the process
// survives its killing; it is still watched then.
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

// endsWithin waits for the end of the process, at most for d or until ctx ends.
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
	Code     int           // exit code, -1 after a signal
	Signal   string        // name of the signal, or empty
	After    time.Duration // lifetime
	Stopped  bool          // by the gateway
	Cause    error         // cause of the context whose end stopped it, or nil
	LastLine string        // of its standard error, the one that says most; safe to print
	Err      error         // why Code and Signal are unknown, or nil
}

// maxLastLine bounds the shown part of the last line.
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
		b.WriteString(" within a second") // always the same text for a program that cannot start
	} else {
		fmt.Fprintf(&b, " after %v", e.After.Round(time.Millisecond))
	}
	if line := e.LastLine; line != "" {
		if len(line) > maxLastLine {
			line = strings.ToValidUTF8(line[:maxLastLine], "") + "…"
		}
		fmt.Fprintf(&b, "; it said on stderr: %s", line)
	}
	return b.String()
}

// Unwrap returns Err and Cause, if set.
func (e *ExitError) Unwrap() []error {
	var all []error
	for _, err := range []error{e.Err, e.Cause} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}
