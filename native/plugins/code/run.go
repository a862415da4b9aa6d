package code

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/toolkit"
)

// outcome is what came of a run.
type outcome struct {
	ExitCode int    `json:"exit_code"` // -1 where a signal ended it
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	TimedOut bool   `json:"timed_out,omitempty"`
	Cut      bool   `json:"cut,omitempty"`
	Millis   int64  `json:"duration_ms"`
	EndedBy  string `json:"ended_by,omitempty"`
}

// job is a program that is to run.
type job struct {
	policy  sandbox.Policy
	program sandbox.Program
	stdin   []byte
	timeout time.Duration
	whole   bool // the beginning of the output is kept, not its ends
	keep    int  // bytes of each output
}

// run runs a program to its end, to the end of its time or to that of ctx, which is
// the only one that is an error. Nothing of it runs any more when it returns.
func (j *job) run(ctx context.Context) (outcome, error) {
	bounded, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	p, err := sandbox.Command(bounded, j.policy, j.program)
	if err != nil {
		return outcome{}, fmt.Errorf("prepare %s: %w", j.program.Path, err)
	}
	stdout, stderr := &kept{most: j.keep, whole: j.whole}, &kept{most: j.keep}
	p.Cmd.Stdin, p.Cmd.Stdout, p.Cmd.Stderr = bytes.NewReader(j.stdin), stdout, stderr
	children.begin()
	defer children.sweep()
	began := time.Now()
	if err = p.Start(); err == nil {
		children.add(p.Cmd.Process.Pid)
		err = p.Wait()
		children.done(p.Cmd.Process.Pid)
	}
	out := outcome{Millis: time.Since(began).Milliseconds(), Stdout: stdout.text(), Stderr: stderr.text(), Cut: stdout.lost > 0 || stderr.lost > 0}
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

// notRun tells why a program did not run, to whoever called where it is the
// machine's or the configuration's matter that they can name to an operator.
func notRun(what string, err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, sandbox.ErrMissing):
		return toolkit.Problemf("%s does not run: this machine cannot confine it, and the configuration does not say sandbox: auto.", what)
	}
	return err
}

// kept keeps a bounded part of an output: its beginning and its end.
type kept struct {
	most  int
	whole bool // its beginning alone
	head  []byte
	tail  []byte
	lost  int64
}

// Write implements io.Writer. It never fails, so that a program that prints too much
// runs on.
func (k *kept) Write(p []byte) (int, error) {
	n := len(p)
	first := k.most / 2
	if k.whole {
		first = k.most
	}
	if room := first - len(k.head); room > 0 {
		take := min(room, len(p))
		k.head, p = append(k.head, p[:take]...), p[take:]
	}
	if len(p) == 0 {
		return n, nil
	}
	if k.whole {
		k.lost += int64(len(p))
		return n, nil
	}
	last := k.most - first
	if drop := len(p) - last; drop > 0 {
		k.lost += int64(drop)
		p = p[drop:]
	}
	k.tail = append(k.tail, p...)
	if len(k.tail) > 2*last {
		k.trim(last)
	}
	return n, nil
}

// trim leaves so much of the end.
func (k *kept) trim(last int) {
	if drop := len(k.tail) - last; drop > 0 {
		k.lost += int64(drop)
		k.tail = append(k.tail[:0], k.tail[drop:]...)
	}
}

// text is what was kept. It is called when nothing is written any more.
func (k *kept) text() string {
	if !k.whole {
		k.trim(k.most - k.most/2)
	}
	text := string(k.head)
	if k.lost > 0 && !k.whole {
		text += fmt.Sprintf("\n[%d bytes left out]\n", k.lost)
	}
	return strings.ToValidUTF8(text+string(k.tail), "\uFFFD")
}
