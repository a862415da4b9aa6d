package declared

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/placeholder"
)

// command is a declared tool that runs a program.
type command struct {
	of    *compiled
	spec  Command
	args  argv
	stdin *placeholder.Value
	env   []string
}

func newCommand(c *compiled, spec *Command) (*command, error) {
	r := &command{of: c, spec: *spec}
	var wrong []error
	if len(spec.Args) == 0 || !filepath.IsAbs(spec.Args[0]) {
		return nil, errors.New("the command names no program by an absolute path")
	}
	var err error
	r.args, err = parseArgv(spec.Args, spec.Dashes)
	wrong = append(wrong, err)
	names := r.args.names()
	for _, name := range spec.Dashes {
		if !slices.Contains(names, name) {
			wrong = append(wrong, fmt.Errorf("dashes names %s, which is no place of an argument", name))
		}
	}
	if slices.Contains(names, placeholder.Whole) {
		wrong = append(wrong, errors.New("{*} is all arguments and belongs into stdin"))
	}
	if spec.Stdin != nil {
		b, err := placeholder.ParseValue(spec.Stdin)
		wrong = append(wrong, err)
		r.stdin = &b
	}
	if spec.Dir != "" && !filepath.IsAbs(spec.Dir) {
		wrong = append(wrong, errors.New("the working folder must be absolute"))
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.IndexByte(spec.Env[name], 0) >= 0 {
			wrong = append(wrong, fmt.Errorf("the variable %q cannot be in an environment", name))
		}
		r.env = append(r.env, name+"="+spec.Env[name])
		if !plainVariables[name] {
			c.keep(spec.Env[name])
		}
	}
	return r, errors.Join(wrong...)
}

// plainVariables never contain secrets.
var plainVariables = map[string]bool{"PATH": true, "HOME": true, "TMPDIR": true, "LANG": true, "LC_ALL": true, "TZ": true, "TERM": true}

func (r *command) names() []string {
	out := r.args.names()
	if r.stdin != nil {
		out = append(out, r.stdin.Names()...)
	}
	return out
}

// needed returns all placeholders: without one of them the other arguments would move.
func (r *command) needed() []string { return r.args.names() }

func (r *command) close() {}

func (r *command) check(_ context.Context, v placeholder.Values, args []byte) error {
	_, _, err := r.fill(v, args)
	return err
}

// fill returns the arguments of a call, and what its program reads.
func (r *command) fill(v placeholder.Values, args []byte) (argv []string, stdin []byte, err error) {
	if argv, err = r.args.fill(v); err != nil || r.stdin == nil {
		return argv, nil, err
	}
	stdin, err = stdinOf(r.stdin, v, args)
	return argv, stdin, err
}

func (r *command) run(ctx context.Context, v placeholder.Values, args []byte) (outcome, error) {
	argv, stdin, err := r.fill(v, args)
	if err != nil {
		return outcome{}, err
	}
	p, err := sandbox.Command(ctx, r.spec.Policy, sandbox.Program{Path: argv[0], Args: argv[1:], Env: r.env, Dir: r.spec.Dir})
	if err != nil {
		return outcome{}, err
	}
	defer p.Close()
	most := int(min(r.of.MaxBytes, math.MaxInt))
	stdout, stderr := &child.Output{Max: most}, &child.Output{Max: most}
	p.Cmd.Stdout, p.Cmd.Stderr = stdout, stderr
	if r.stdin != nil {
		p.Cmd.Stdin = bytes.NewReader(stdin)
	}
	if err := p.Start(); err != nil {
		return outcome{}, fmt.Errorf("start the program: %w", err)
	}
	err = p.Wait()
	if ctx.Err() != nil {
		return outcome{}, context.Cause(ctx)
	}
	text, _, lost := stdout.Parts()
	said, _, _ := stderr.Parts()
	out := outcome{text: text, json: true, cut: lost > 0, more: string(said)}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		out.failed = fmt.Sprintf("The program failed: %s.", exit.ProcessState)
	} else if err != nil {
		return outcome{}, fmt.Errorf("wait for the program: %w", err)
	}
	return out, nil
}
