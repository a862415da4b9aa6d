package code

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/toolapi"
)

// command returns the function of a tool that runs one of the configured commands on a
// path. The path is absolute, so no program takes it for an option, and always a whole
// argument.
func (s *service) command(what string, commands map[string]Command) func(context.Context, *toolapi.Call) (toolapi.Result, error) {
	return func(ctx context.Context, call *toolapi.Call) (toolapi.Result, error) {
		var name, path string
		if err := toolapi.Read(call.Arguments, toolapi.Fields{"name": &name, "path": &path}); err != nil {
			return toolapi.Result{}, err
		}
		command, ok := commands[name]
		if !ok {
			return toolapi.Result{}, toolapi.Problemf("There is no %s %q. %s", what, name, known("Configured", commands))
		}
		at, folder, err := s.tree.Path(path)
		if err != nil {
			return toolapi.Result{}, err
		}
		back, err := s.slot(ctx)
		if err != nil {
			return toolapi.Result{}, err
		}
		defer back()
		out, err := s.runCommand(ctx, command, at, folder)
		if err != nil {
			return toolapi.Result{}, notRun("The "+what, err)
		}
		return finished(out)
	}
}

// runCommand runs a command on a real path.
func (s *service) runCommand(ctx context.Context, command Command, at string, folder bool) (out outcome, err error) {
	// Tests build and run programs, which the private folder of the sandbox does not
	// allow.
	scratch, err := os.MkdirTemp("", "toolgate-run-")
	if err != nil {
		return outcome{}, err
	}
	defer func() { err = errors.Join(err, sandbox.RemoveAll(scratch)) }()
	if scratch, err = filepath.EvalSymlinks(scratch); err != nil {
		return outcome{}, err
	}
	dir := at
	if !folder {
		dir = filepath.Dir(at)
	}
	args := slices.Clone(command.Command[1:])
	for i, arg := range args {
		if arg == "{path}" {
			args[i] = at
		}
	}
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + scratch, "TMPDIR=" + scratch}
	for name, value := range command.Env {
		if name != "HOME" && name != "TMPDIR" {
			env = append(env, name+"="+value)
		}
	}
	policy := s.config.policy()
	policy.Read = append(exists("/usr", "/opt", "/etc/ssl", "/proc/cpuinfo", "/proc/meminfo"), s.config.Roots...)
	policy.Read = append(policy.Read, library(command.Command[0])...)
	policy.Write = append(slices.Clone(s.config.Write), scratch)
	policy.Run = append(exists("/usr", "/bin", "/opt"), scratch)
	policy.Run = append(policy.Run, s.config.Roots...)
	j := job{
		policy:  policy,
		program: sandbox.Program{Path: command.Command[0], Args: args, Env: env, Dir: dir},
		timeout: s.config.Timeout, keep: s.config.MaxBytes / 2,
	}
	return j.run(ctx)
}
