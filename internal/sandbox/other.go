//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/toolgate/toolgate/internal/child"
)

// sandboxExec is the program of macOS that runs others under a profile.
const sandboxExec = "/usr/bin/sandbox-exec"

// available returns that nothing enforces a policy on this system, but for a policy
// without limits on macOS: Seatbelt has none.
func available(p Policy) Layers {
	if p.Mode == Off {
		return Layers{}
	}
	if runtime.GOOS == "darwin" && p.Unlimited {
		l := Layers{}
		_, err := os.Stat(sandboxExec)
		l.add(Seatbelt, err == nil, true, fmt.Sprintf("there is no %s: %v", sandboxExec, err))
		return l
	}
	l := Layers{}
	for _, layer := range []Layer{Privileges, Limits, Files, Calls, Namespaces, Processes} {
		l.Missing = append(l.Missing, Missing{layer, "only Linux on amd64 and arm64 has it", true})
	}
	return l
}

// confine confines nothing on this system.
func confine(p Policy) (Layers, error) {
	l := available(p)
	if p.Mode == Required {
		return Layers{}, l.refusal()
	}
	return l, nil
}

// command creates the command of the program, under its profile where there is one.
func (pr *Process) command(ctx context.Context, p Policy, program Program, file *os.File) error {
	pr.ours = append(pr.ours, file)
	if len(program.Files) > 0 {
		return errors.New("no descriptors can be given to it on this system")
	}
	cmd := exec.CommandContext(ctx, program.Path, program.Args...)
	if pr.Layers.Has(Seatbelt) {
		p, err := realPolicy(p)
		if err != nil {
			return err
		}
		real, err := filepath.EvalSymlinks(program.Path)
		if err != nil {
			return err
		}
		cmd = exec.CommandContext(ctx, sandboxExec, append([]string{"-p", seatbelt(p, real, pr.Temp), program.Path}, program.Args...)...)
	}
	cmd.Env = pr.environment(program)
	cmd.Dir = program.Dir
	if cmd.Dir == "" {
		cmd.Dir = pr.Temp
	}
	cmd.Cancel = func() error { pr.group.Kill(); return nil }
	cmd.WaitDelay = killWait
	pr.Cmd, pr.guard = cmd, child.GuardedAfter
	return nil
}

// openPlain opens a regular file.
func openPlain(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return os.Open(path)
}

// copyOf fails: an open file cannot be run on this system.
func copyOf(*os.File) (*os.File, error) {
	return nil, errors.New("an open file cannot be run on this system")
}
