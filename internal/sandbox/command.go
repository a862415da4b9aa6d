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

// Program is a program to run under a policy.
type Program struct {
	Path string // absolute; the program finds it as its own name
	// File is the open program, such as a sealed copy of it. The caller closes it. Nil
	// is the file at Path.
	File *os.File
	Args []string // without the name of the program
	// Env is the whole environment. HOME and TMPDIR are added if the policy gives a
	// private folder, and a PATH if Env has none.
	Env []string
	// Dir is the working directory, which the policy must grant. Empty is the private
	// folder, or the root without one.
	Dir   string
	Files []*os.File // become its descriptors from 3 on; the caller closes them
	// SHA256 is the checksum of the program. It is compared with the open file that is
	// run, so the file cannot be replaced in between. Somebody with write access can
	// still change its content. Nil compares nothing.
	SHA256 []byte
}

// ErrChecksum is wrapped in the error of a program with another checksum.
var ErrChecksum = errors.New("the program has another checksum")

// maxProgram is how many bytes of a program are read for its checksum. The checksum of
// a longer program never matches.
const maxProgram = 1 << 32

// killWait is how long to wait for the output of a killed process: a process that was
// not killed may hold it open.
const killWait = 2 * time.Second

// reportWait is how long the shim may take to become the program.
const reportWait = 10 * time.Second

// Process is a program under a policy: before its start, running, or ended.
type Process struct {
	// Cmd is the command. Before the start, the caller may set its Stdin, Stdout and
	// Stderr and append to its Env, and must not change other fields. The caller limits
	// how much output is kept.
	Cmd    *exec.Cmd
	Layers Layers // the layers that enforce the policy
	Temp   string // the private folder; "" if the policy gives none

	program string
	group   *child.Group
	guard   child.Guard
	report  *os.File   // from which Start reads why the program was not entered
	gate    *os.File   // a byte written to it lets the shim become the program; nil without a gate
	ours    []*os.File // files of the child, which are closed after its start
	closing sync.Once
	err     error // from removing the private folder
}

// Command prepares a program to be run under a policy. When ctx ends, the process and
// everything that it started are killed. The caller closes the Process.
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
	process := &Process{Layers: layers, program: program.Path, group: &child.Group{}}
	if err := process.prepare(ctx, p, program); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: %s: %w", program.Path, err), process.Close())
	}
	return process, nil
}

// prepare creates what the process needs before it starts.
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

// openProgram opens a program and compares its checksum.
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

// environment returns the environment of a program.
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

// Start starts the shim and returns when it has become the program, or why it has not.
// If there is a gate, the guardian knows the process before the program runs.
func (pr *Process) Start() error { return pr.StartIn(pr.group) }

// StartIn is Start as the leader of a group that the caller has made and waits for. After
// an error the process has ended.
func (pr *Process) StartIn(group *child.Group) error {
	pr.group = group
	err := pr.group.Start(pr.Cmd, pr.guard)
	pr.release()
	if pr.gate != nil {
		if err == nil {
			_, _ = pr.gate.Write([]byte{1}) // fails if the process has ended, which entered notices
		}
		_ = pr.gate.Close()
	}
	if err != nil {
		return fmt.Errorf("sandbox: starting %s: %w", pr.program, err)
	}
	return pr.entered()
}

// entered waits until the shim has become the program. If it returns an error, the
// process has ended.
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

// Wait waits for the end of the program and of its output, like [exec.Cmd.Wait], and
// kills what the program has started.
func (pr *Process) Wait() error {
	if pr.Cmd.Process == nil {
		return errors.New("sandbox: it was not started")
	}
	_ = pr.group.AwaitExit() // if the exit cannot be observed, End kills the process
	pr.group.End()
	return pr.Cmd.Wait()
}

// Kill kills the program and everything that it started. It does nothing if the program
// does not run.
func (pr *Process) Kill() { pr.group.Kill() }

// Close kills the program if it runs, waits for it, and removes the private folder. It
// may be called several times, and after a failed start.
func (pr *Process) Close() error {
	pr.closing.Do(func() {
		if pr.Cmd != nil && pr.Cmd.Process != nil && pr.Cmd.ProcessState == nil {
			pr.group.Kill()
			_ = pr.Wait() // an error if somebody else waits
		}
		pr.release()
		if pr.report != nil {
			_ = pr.report.Close()
		}
		if pr.gate != nil {
			_ = pr.gate.Close() // open only if the process was never started
		}
		if pr.Temp != "" {
			pr.err = RemoveAll(pr.Temp)
		}
	})
	return pr.err
}

// release closes the files of the child.
func (pr *Process) release() {
	for _, f := range pr.ours {
		_ = f.Close()
	}
	pr.ours = nil
}

// RemoveAll removes a folder that a confined process wrote, even if its modes forbid
// that. The process must have ended.
func RemoveAll(folder string) error {
	err := os.RemoveAll(folder)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(folder, func(path string, d os.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // a folder, which nobody else can swap: its process is gone
		}
		return nil
	})
	return os.RemoveAll(folder)
}
