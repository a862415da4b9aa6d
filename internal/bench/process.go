package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"time"
)

const (
	// startTime bounds the wait for the address of a program.
	startTime = 20 * time.Second
	// stopTime is how long a program may take to end when asked to.
	stopTime = 10 * time.Second
	// keptOutput is how much of a program's standard error is kept, in bytes.
	keptOutput = 16 << 10
)

// process is one program that the runner has started. It is ended by stop or
// kill, and with the context of the runner.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *tail
	most   time.Duration // how long it may take to end when asked to
	last   sync.Once     // begins to discard standard output
	ended  chan struct{}
	err    error // of the program; read after ended
}

// start runs a program with the environment env.
func start(ctx context.Context, name string, env []string, binary string, args ...string) (*process, error) {
	p := &process{name: name, stderr: &tail{}, most: stopTime, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, binary, args...)
	p.cmd.Env, p.cmd.Stderr = env, p.stderr
	p.cmd.WaitDelay = 2 * time.Second
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	// A pipe of our own: that of StdoutPipe must not be read after Wait.
	reader, writer := io.Pipe()
	p.cmd.Stdout, p.stdout = writer, bufio.NewReader(reader)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { // ends with the program
		p.err = p.cmd.Wait()
		writer.CloseWithError(io.EOF)
		close(p.ended)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// line reads one line of standard output.
func (p *process) line(most time.Duration) ([]byte, error) {
	timer := time.AfterFunc(most, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	line, err := p.stdout.ReadBytes('\n')
	if err != nil {
		return nil, p.failure(fmt.Errorf("no line within %v: %w", most, err))
	}
	return line, nil
}

// find reads lines until one matches.
func (p *process) find(what *regexp.Regexp) ([][]byte, error) {
	deadline := time.Now().Add(startTime)
	for {
		line, err := p.line(time.Until(deadline))
		if err != nil {
			return nil, err
		}
		if found := what.FindSubmatch(line); found != nil {
			return found, nil
		}
	}
}

// failure adds to an error what the program itself said last.
func (p *process) failure(err error) error {
	select {
	case <-p.ended:
		err = errors.Join(err, p.err)
	default:
	}
	return fmt.Errorf("%s: %w\n%s", p.name, err, p.stderr.bytes())
}

// stop asks the program to end and kills it when it does not.
func (p *process) stop() error {
	p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	p.discard()
	select {
	case <-p.ended:
		return nil
	case <-time.After(p.most):
		p.kill()
		return p.failure(fmt.Errorf("not ended %v after it was asked to", p.most))
	}
}

// kill ends the program without asking.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.discard()
	<-p.ended
}

// discard lets the program write its last words to nobody, so that it does not
// wait for a reader.
func (p *process) discard() {
	p.last.Do(func() {
		go func() { _, _ = io.Copy(io.Discard, p.stdout) }() // ends with the program
	})
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - keptOutput; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.kept)
}
