package sandbox

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/child"
)

// Program is what is run under a policy.
type Program struct {
	Path string // absolute; what the program finds as its own name
	// File is the program itself, such as a copy of it that nobody can change. It
	// stays the caller's. Nil is the file at Path.
	File *os.File
	Args []string // without its own name
	// Env is its whole environment, but for HOME and TMPDIR where the policy gives
	// it a private folder, and a PATH where Env has none.
	Env []string
	// Dir is the folder that it starts in, which the policy must grant. Empty is its
	// private folder, or the root.
	Dir   string
	Files []*os.File // become its descriptors 3 and following; they stay the caller's
	// SHA256 is the checksum of the program, checked on the very file that runs: no
	// other can come in between, but who may write that file can still change it.
	// Nil is not checked.
	SHA256 []byte
}

// ErrChecksum is in the error of a program that is not the one that was meant.
var ErrChecksum = errors.New("the program has another checksum")

// maxProgram is how much of a program is read for its checksum, in bytes; one that
// is longer has another.
const maxProgram = 1 << 32

// killWait is how long the descriptors of a killed process may be held open by
// something that was not killed.
const killWait = 2 * time.Second

// reportWait is how long a program may take until it is entered.
const reportWait = 10 * time.Second

// Process is a program that is about to run, runs, or ran under a policy.
type Process struct {
	// Cmd may be given Stdin, Stdout and Stderr, and its Env may be added to, before
	// it is started; its other fields stay as they are. How much of the output is
	// kept is up to whoever takes it.
	Cmd    *exec.Cmd
	Layers Layers // what enforces the policy
	Temp   string // the private folder; "" where the policy gives none

	program string
	group   child.Group
	guard   child.Guard
	report  *os.File   // says why the program was not entered
	gate    *os.File   // what is written to it lets the program be entered; nil is no gate
	ours    []*os.File // what is the child's from its start on
	closing sync.Once
	err     error // of removing the private folder
}

// Command prepares a program to be run under a policy. The process is killed, with
// everything that it started, when ctx ends. Whoever gets a Process closes it.
func Command(ctx context.Context, p Policy, program Program) (*Process, error) {
	p, err := p.checked()
	if err != nil {
		return nil, err
	}
	if err := checkPath(program.Path); err != nil {
		return nil, err
	}
	if program.Dir != "" {
		if err := checkPath(program.Dir); err != nil {
			return nil, err
		}
	}
	layers := available(p)
	if p.Mode == Required {
		if err := layers.refusal(); err != nil {
			return nil, fmt.Errorf("%s: %w", program.Path, err)
		}
	}
	process := &Process{Layers: layers, program: program.Path}
	if err := process.prepare(ctx, p, program); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: %s: %w", program.Path, err), process.Close())
	}
	return process, nil
}

// prepare makes everything that the process needs before it starts.
func (pr *Process) prepare(ctx context.Context, p Policy, program Program) error {
	if p.Temp {
		made, err := os.MkdirTemp("", "toolgate-sandbox-")
		if err != nil {
			return fmt.Errorf("making its private folder: %w", err)
		}
		pr.Temp = made
		if pr.Temp, err = filepath.EvalSymlinks(made); err != nil {
			pr.Temp = made
			return fmt.Errorf("its private folder: %w", err)
		}
	}
	file, err := openProgram(program)
	if err != nil {
		return err
	}
	pr.ours = append(pr.ours, file)
	return pr.command(ctx, p, program, file)
}

// openProgram opens a program once, and compares its checksum.
func openProgram(program Program) (*os.File, error) {
	file := program.File
	var err error
	if file == nil {
		file, err = openPlain(program.Path)
	} else {
		file, err = copyOf(file)
	}
	if err != nil {
		return nil, err
	}
	if program.SHA256 == nil {
		return file, nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(file, 0, maxProgram)); err != nil {
		return nil, errors.Join(fmt.Errorf("reading it: %w", err), file.Close())
	}
	if got := sum.Sum(nil); subtle.ConstantTimeCompare(got, program.SHA256) != 1 {
		return nil, errors.Join(fmt.Errorf("%w: it is %x and must be %x", ErrChecksum, got, program.SHA256), file.Close())
	}
	return file, nil
}

// environment returns the variables of a program.
func (pr *Process) environment(program Program) []string {
	env := make([]string, 0, len(program.Env)+3)
	path := false
	for _, v := range program.Env {
		name, _, _ := strings.Cut(v, "=")
		if pr.Temp != "" && (name == "HOME" || name == "TMPDIR") {
			continue
		}
		path = path || name == "PATH"
		env = append(env, v)
	}
	if pr.Temp != "" {
		env = append(env, "HOME="+pr.Temp, "TMPDIR="+pr.Temp)
	}
	if !path {
		env = append(env, "PATH="+defaultPath)
	}
	return env
}

// Start starts the program and returns when it was entered, or why it was not. A
// program that has a gate is guarded before it is entered.
func (pr *Process) Start() error {
	err := pr.group.Start(pr.Cmd, pr.guard)
	pr.release()
	if pr.gate != nil {
		if err == nil {
			_, _ = pr.gate.Write([]byte{1}) // it fails where the process has ended, which is noticed
		}
		_ = pr.gate.Close()
	}
	if err != nil {
		return fmt.Errorf("sandbox: starting %s: %w", pr.program, err)
	}
	return pr.entered()
}

// entered waits for the word of the process itself. One that is not entered is gone
// when it returns.
func (pr *Process) entered() error {
	if pr.report == nil {
		return nil
	}
	_ = pr.report.SetReadDeadline(time.Now().Add(reportWait))
	text, err := io.ReadAll(io.LimitReader(pr.report, 4096))
	if err == nil && len(text) == 0 {
		return nil
	}
	if len(text) > 0 {
		err = errors.New(string(text))
	}
	pr.group.Kill()
	_ = pr.Wait()
	return fmt.Errorf("sandbox: %s was not entered: %w", pr.program, err)
}

// Wait waits until the program has ended and its output is read, as [exec.Cmd.Wait]
// does. Nothing that it started runs any more when it returns.
func (pr *Process) Wait() error {
	if pr.Cmd.Process == nil {
		return errors.New("sandbox: it was not started")
	}
	_ = pr.group.AwaitExit() // where that cannot be watched, End kills it
	pr.group.End()
	return pr.Cmd.Wait()
}

// Kill kills the program and everything that it started. It does nothing to one
// that does not run.
func (pr *Process) Kill() { pr.group.Kill() }

// Close kills what still runs, waits for it, and removes the private folder. It may
// be called more than once, and after a start that failed.
func (pr *Process) Close() error {
	pr.closing.Do(func() {
		if pr.Cmd != nil && pr.Cmd.Process != nil && pr.Cmd.ProcessState == nil {
			pr.group.Kill()
			_ = pr.Wait() // or somebody else has waited, or does
		}
		pr.release()
		if pr.report != nil {
			_ = pr.report.Close()
		}
		if pr.gate != nil {
			_ = pr.gate.Close() // of a process that was never started
		}
		if pr.Temp != "" {
			pr.err = RemoveAll(pr.Temp)
		}
	})
	return pr.err
}

// release closes what only the child needs.
func (pr *Process) release() {
	for _, f := range pr.ours {
		_ = f.Close()
	}
	pr.ours = nil
}

// RemoveAll removes a folder that a confined process wrote, whose modes may be in
// the way. The process has ended.
func RemoveAll(folder string) error {
	err := os.RemoveAll(folder)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(folder, func(path string, d os.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // a folder, which nobody else can swap: its process is gone
		}
		return nil
	})
	return os.RemoveAll(folder)
}
