package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/target"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
)

// SearchOrder says which configuration and which gateway a command uses.
const SearchOrder = `toolgate reads one file. It takes the first of these:

  1. the file that --config (-c) names
  2. the file that the variable TOOLGATE_CONFIG names
  3. toolgate.yaml in the working folder, which does not run before you have
     accepted it with toolgate trust; toolgate stdio skips it until then
  4. toolgate/toolgate.yaml in your configuration folder (~/.config on Linux)
  5. none: the built-in demo

toolgate up takes more than one file. The servers of all become one gateway. Only the
first file may have settings, and commands name the gateway by it.

A command that asks a gateway, such as ls, call or why, looks for running gateways
before steps 3 to 5. If the gateway of the file in step 3 or 4 runs, it asks that
one. If one other gateway runs, it asks that one and says so. If several others run,
it lists them, and you choose one with -c. If none runs, ls, tools, find, call and why
start the servers of the file for themselves and stop them again.`

// FileArgument accepts one argument, which names the configuration like --config.
func FileArgument(o *Options) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return errors.New("takes one file (`toolgate up` takes several, and other commands name their gateway by the first)")
		}
		return FilesArgument(o)(cmd, args)
	}
}

// FilesArgument accepts any number of arguments, which name one configuration: the first
// like --config, the others the files whose servers join it.
func FilesArgument(o *Options) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			o.Config, o.With = args[0], args[1:]
		}
		return nil
	}
}

// Talks tells whether a person reads what a command notes besides its output.
func Talks(o *Options) bool {
	return !o.Quiet && (o.Output == "" || o.Output == "table" || o.Output == "wide")
}

// Target returns the path of the configuration whose gateway a command talks to; empty for
// the demo. It tells a person if that is not the configuration which a start would read.
func (o *Options) Target(ctx context.Context) (string, error) {
	found, err := o.FindFile()
	if err != nil {
		return "", err
	}
	path, running, err := target.Find(ctx, found, named(o))
	if err != nil || running == nil {
		return path, err
	}
	o.With = running.With
	if path != found && !o.told && Talks(o) {
		o.told = true
		output.Note("using the gateway of %s, %s", target.Files(running), target.Process(running))
	}
	return path, nil
}

// LoadTarget reads the configuration of the gateway that a command talks to.
func (o *Options) LoadTarget(ctx context.Context) (*config.Config, error) {
	path, err := o.Target(ctx)
	if err != nil {
		return nil, err
	}
	return o.ReadConfig(path)
}

// Control returns the file of the gateway that a command talks to, and a client of its
// control API, which need not run.
func (o *Options) Control(ctx context.Context) (path string, control *admin.Client, err error) {
	if path, err = o.Target(ctx); err != nil {
		return "", nil, err
	}
	control, err = target.Client(path)
	return path, control, err
}

// WithControl calls use with a client of the running gateway's control API. It does not
// read the configuration, which may be broken.
func (o *Options) WithControl(ctx context.Context, use func(*admin.Client) error) error {
	path, control, err := o.Control(ctx)
	if err != nil {
		return err
	}
	err = use(control)
	if errors.Is(err, admin.ErrNotRunning) {
		return target.NotRunning(path)
	}
	if _, coded := errors.AsType[*failure.Error](err); err == nil || coded {
		return err
	}
	return ControlError(err)
}

// WithGateway calls use with the running gateway, or with one that is started for this
// command and stopped afterwards. control is nil for the latter, own for the former. A
// running gateway is used even if its configuration is broken at the moment.
func (o *Options) WithGateway(ctx context.Context, use func(ctx context.Context, control *admin.Client, own *daemon.Daemon) error) error {
	path, control, err := o.Control(ctx)
	if err != nil {
		return err
	}
	if _, err := control.Status(ctx); !errors.Is(err, admin.ErrNotRunning) && !errors.Is(err, admin.ErrNoAnswer) {
		if err != nil {
			return ControlError(err)
		}
		return use(ctx, control, nil)
	}
	c, err := o.ReadConfig(path)
	if err != nil {
		return err
	}
	state, err := statedir.Open(path)
	if err != nil {
		return err
	}
	if err := MayRun(o, c, state); err != nil {
		return err
	}
	control, in, err := o.JoinOrOwn(ctx, c, state, commandAttempts, func(control *admin.Client) error {
		_, err := control.Status(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if in == nil {
		return use(ctx, control, nil)
	}
	switch {
	case !Talks(o):
	case path == "":
		output.Note("no gateway is running: the demo is started for this command only")
	default:
		output.Note("no gateway is running with %s: its servers are started for this command only", target.Shown(path))
	}
	return in.Run(ctx, func(ctx context.Context) error {
		o.waitSettled(ctx, in)
		return use(ctx, nil, in)
	})
}
