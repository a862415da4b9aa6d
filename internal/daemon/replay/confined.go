package replay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/sandbox"
)

const (
	// endTime is what a process has to start and to end besides [replayTime].
	endTime = 5 * time.Second
	// maxLast bounds what is kept of the last words of a process, in bytes.
	maxLast = 8 << 10
	// maxProcesses bounds the threads of a process.
	maxProcesses = 32
	// maxOpen bounds the files that it has open.
	maxOpen = 32
)

// needed are the layers without which no policy of an administrator is evaluated. The
// number of processes need not be bounded, because the process runs no other program.
var needed = []sandbox.Layer{sandbox.Privileges, sandbox.Limits, sandbox.Files, sandbox.Calls}

// errConfine says that this machine cannot confine the process.
var errConfine = errors.New("this gateway does not evaluate policies of the console, because its machine cannot confine the process that would; `toolgate policy replay FOLDER` does the same as an operator of the machine")

// confined is a process that evaluates one policy.
type confined struct {
	process *sandbox.Process
	in      io.WriteCloser
	out     *bufio.Scanner
	last    *child.Output
}

// start starts the process. It is killed when ctx ends. The caller closes it.
func start(ctx context.Context) (*confined, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the own program: %w", err)
	}
	p, err := sandbox.Command(ctx, sandbox.Policy{
		Mode: sandbox.Auto, CPU: replayTime + time.Second, Memory: memory, FileSize: 1, Files: maxOpen, Processes: maxProcesses,
	}, sandbox.Program{Path: self, Args: []string{argument}})
	if err != nil {
		return nil, err
	}
	for _, layer := range needed {
		if !p.Layers.Has(layer) {
			return nil, errors.Join(fmt.Errorf("%w (it lacks %s)", errConfine, layer), p.Close())
		}
	}
	c := &confined{process: p, last: &child.Output{Max: maxLast}}
	p.Cmd.Stderr = c.last
	out, err := p.Cmd.StdoutPipe()
	if err == nil {
		c.in, err = p.Cmd.StdinPipe()
	}
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the process: %w", err), p.Close())
	}
	c.out = bufio.NewScanner(out)
	c.out.Buffer(nil, maxAnswer)
	return c, nil
}

// close ends the process, and returns what it has written to standard error.
func (c *confined) close() []byte {
	_ = c.in.Close()
	c.process.Kill()
	_ = c.process.Wait() // its end is that of a signal, after its last answer
	_ = c.process.Close()
	words, _, _ := c.last.Parts()
	return words
}

// why says why a process has ended: its last words are those of Go's runtime.
func why(ctx context.Context, words []byte) error {
	has := func(text string) bool { return bytes.Contains(words, []byte(text)) }
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded), has(context.DeadlineExceeded.Error()):
		return fmt.Errorf("%w: the policy was not evaluated within %v; it may loop, or be slow for so many calls", admin.ErrReplayBound, replayTime)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case has("out of memory"), has("cannot allocate memory"):
		return fmt.Errorf("%w: the policy used more than %d MiB of memory", admin.ErrReplayBound, memory>>20)
	case has("stack exceeds"), has("stack overflow"):
		return fmt.Errorf("%w: the policy nests too deeply", admin.ErrReplayBound)
	}
	return fmt.Errorf("%w: the process that evaluates the policy has ended early", admin.ErrReplayBound)
}

// firstLine is the first line of a text. The stacks of Go's runtime are behind it.
func firstLine(text []byte) string {
	first, _, _ := strings.Cut(string(text), "\n")
	return first
}

// send writes a message.
func (c *confined) send(to *json.Encoder, v any) error {
	if err := to.Encode(v); err != nil {
		return fmt.Errorf("send to the process: %w", err)
	}
	return nil
}

// receive reads a message.
func (c *confined) receive(into any) error {
	if !c.out.Scan() {
		return errors.Join(io.ErrUnexpectedEOF, c.out.Err())
	}
	d := json.NewDecoder(bytes.NewReader(c.out.Bytes()))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// evaluate has a confined process ask a policy about calls. args returns the arguments of
// a call, nil if they are not recorded; it is asked only if the policy reads them. There
// are as many verdicts as calls, unless the policy has problems. ready is what the process has
// said by then, with an error too.
func evaluate(ctx context.Context, log *slog.Logger, policy *policyMessage, calls []recorded, args func(*recorded) json.RawMessage) (ready readyMessage, verdicts []Verdict, err error) {
	ctx, cancel := context.WithTimeout(ctx, replayTime+endTime)
	defer cancel()
	c, err := start(ctx)
	if ctx.Err() != nil && err != nil {
		return ready, nil, context.Cause(ctx)
	}
	if err != nil {
		return ready, nil, err
	}
	verdicts, err = c.evaluate(policy, &ready, calls, args)
	if words := c.close(); err != nil {
		log.Warn("the process that evaluates a policy for an administrator has ended early", "err", err, "last", shortened(firstLine(words), maxProblem))
		return ready, nil, why(ctx, words)
	}
	return ready, verdicts, nil
}

func (c *confined) evaluate(policy *policyMessage, ready *readyMessage, calls []recorded, args func(*recorded) json.RawMessage) ([]Verdict, error) {
	buffered := bufio.NewWriterSize(c.in, 64<<10)
	to := json.NewEncoder(buffered)
	if err := errors.Join(c.send(to, policy), buffered.Flush()); err != nil {
		return nil, err
	}
	if err := c.receive(ready); err != nil {
		return nil, err
	}
	ready.Problems = ready.Problems[:min(len(ready.Problems), maxProblems)]
	if len(ready.Problems) > 0 {
		return nil, nil
	}
	for i := range calls {
		m := callMessage{Question: calls[i].asked}
		if ready.Arguments {
			m.Arguments = args(&calls[i])
		}
		if err := c.send(to, &m); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(buffered.Flush(), c.in.Close()); err != nil {
		return nil, err
	}
	verdicts := make([]Verdict, len(calls))
	for i := range verdicts {
		v := &verdicts[i]
		if err := c.receive(v); err != nil {
			return nil, err
		}
		if !known[v.Now] {
			return nil, fmt.Errorf("a verdict %q of the process", v.Now)
		}
		v.Reason = strings.Clone(shortened(v.Reason, maxReason+len("…")))
	}
	return verdicts, nil
}

// known are the verdicts that a process may give.
var known = map[string]bool{"": true, Failed: true, Asks: true, "allow": true, "deny": true, "abstain": true}
