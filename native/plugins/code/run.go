package code

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/toolapi"
)

// outcome is the result of a run.
type outcome struct {
	ExitCode int    `json:"exit_code"` // -1 where a signal ended it
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	TimedOut bool   `json:"timed_out,omitempty"`
	Cut      bool   `json:"cut,omitempty"`
	Millis   int64  `json:"duration_ms"`
	EndedBy  string `json:"ended_by,omitempty"`
}

// job is a program to run.
type job struct {
	policy  sandbox.Policy
	program sandbox.Program
	stdin   []byte
	timeout time.Duration
	whole   bool // keep only the beginning of the output
	keep    int  // bytes of each output
}

// run runs a program until it exits, its time is up, or ctx ends. Only the end of ctx is
// an error. Nothing that the program started runs when it returns.
func (j *job) run(ctx context.Context) (outcome, error) {
	bounded, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	p, err := sandbox.Command(bounded, j.policy, j.program)
	if err != nil {
		return outcome{}, fmt.Errorf("prepare %s: %w", j.program.Path, err)
	}
	stdout, stderr := &child.Output{Max: j.keep, Ends: !j.whole}, &child.Output{Max: j.keep, Ends: true}
	p.Cmd.Stdin, p.Cmd.Stdout, p.Cmd.Stderr = bytes.NewReader(j.stdin), stdout, stderr
	children.begin()
	defer children.sweep()
	began := time.Now()
	if err = p.Start(); err == nil {
		children.add(p.Cmd.Process.Pid)
		err = p.Wait()
		children.done(p.Cmd.Process.Pid)
	}
	out := outcome{Millis: time.Since(began).Milliseconds()}
	var cut bool
	out.Stdout, out.Cut = textOf(stdout)
	out.Stderr, cut = textOf(stderr)
	out.Cut = out.Cut || cut
	closed := p.Close()
	if ctx.Err() != nil {
		return outcome{}, ctx.Err()
	}
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case bounded.Err() != nil:
		out.TimedOut, out.ExitCode = true, -1
	case ended:
		if out.ExitCode = exit.ExitCode(); out.ExitCode < 0 {
			out.EndedBy = exit.String()
		}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return outcome{}, fmt.Errorf("run %s: %w", j.program.Path, err)
	}
	if closed != nil {
		return outcome{}, fmt.Errorf("clean up behind %s: %w", j.program.Path, closed)
	}
	return out, nil
}

// notRun returns why a program did not run. If the machine cannot confine it, the caller
// learns that, to pass it on to an operator.
func notRun(what string, err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, sandbox.ErrMissing):
		return toolapi.Problemf("%s does not run: this machine cannot confine it, and the configuration does not say sandbox: auto.", what)
	}
	return err
}

// textOf returns the kept part of an output, and whether something was left out.
func textOf(o *child.Output) (text string, cut bool) {
	head, tail, lost := o.Parts()
	text = string(head)
	if lost > 0 && o.Ends {
		text += fmt.Sprintf("\n[%d bytes left out]\n", lost)
	}
	return strings.ToValidUTF8(text+string(tail), "\uFFFD"), lost > 0
}
