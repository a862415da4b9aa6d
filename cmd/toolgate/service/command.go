// Package service writes what starts a gateway for its user at login: a user unit of
// systemd, or an agent of launchd.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/failure"
)

// limit bounds what the service manager is asked for. Stopping a gateway takes up to
// [stopSeconds].
const limit = (stopSeconds + 20) * time.Second

// manager is what starts programs for a user on one system.
type manager interface {
	// path is where the unit is.
	path() (string, error)
	// unit returns the unit of a gateway, whose first lines contain [written]. An error says
	// what the manager cannot take.
	unit(g gateway) (string, error)
	// reload makes the manager read a unit that was written or removed.
	reload(ctx context.Context) error
	// next is the command that starts a unit. replaced tells whether it may be running.
	next(path string, replaced bool) string
	// log says where the log of the gateway is, and stays how it outlives a login.
	log() string
	stays() string
	// stop ends the gateway, and forgets that it starts at login.
	stop(ctx context.Context, path string) error
	// state says in a line how the gateway is, and whether it runs.
	state(ctx context.Context) (line string, runs bool, err error)
}

// managers are those of the systems that have one.
var managers = map[string]manager{"linux": systemd{}, "darwin": launchd{}}

// New returns the command `service`. find returns the absolute paths of the files of the
// configuration that the arguments name, if it may run without anybody being asked, and takes
// is the rule for the arguments that name one.
func New(takes cobra.PositionalArgs, find func() ([]string, error)) *cobra.Command {
	c := &cobra.Command{
		Use:   "service",
		Short: "Start a gateway when you log in",
		Long: `Start a gateway when you log in: with a user unit of systemd on Linux, and with an agent
of launchd on macOS. Both run this program as you, restart it when it fails, and hold no
secret. Variables that the configuration names come from the .env file beside it or from
the key ring, because a service does not have those of your shell (docs/install.md).`,
	}
	c.AddCommand(newInstall(takes, find), newUninstall(), newStatus())
	return c
}

func newInstall(takes cobra.PositionalArgs, find func() ([]string, error)) *cobra.Command {
	var show bool
	c := &cobra.Command{
		Use:   "install [FILE...]",
		Short: "Write the unit, and say how to start it",
		Long: `Write the unit, or write it again, and say how to start it. The configuration has to be
accepted (toolgate trust). Several files are one configuration, as for toolgate up. A unit
that toolgate has not written stays as it is.`,
		Example: "  toolgate service install ~/toolgate.yaml\n  toolgate service install --print ~/toolgate.yaml",
		Args:    takes,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := find()
			if err != nil {
				return err
			}
			g, err := newGateway(files)
			if err != nil {
				return err
			}
			m, ok := managers[runtime.GOOS]
			if !ok {
				return unsupported(runtime.GOOS, g)
			}
			text, err := m.unit(g)
			if err != nil {
				return err
			}
			if show {
				_, err := io.WriteString(cmd.OutOrStdout(), text)
				return err
			}
			return install(cmd.Context(), cmd.OutOrStdout(), m, g, text)
		},
	}
	c.Flags().BoolVar(&show, "print", false, "print the unit and write nothing")
	return c
}

func install(ctx context.Context, out io.Writer, m manager, g gateway, unit string) error {
	path, err := m.path()
	if err != nil {
		return err
	}
	replaced, err := writeUnit(path, unit)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "wrote %s\nit runs %s %s\n", path, g.program, strings.Join(g.args(), " "))
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := m.reload(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "to start it, now and when you log in:\n  %s\nits log: %s\n%s", m.next(path, replaced), m.log(), m.stays())
	return err
}

func newUninstall() *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the service and remove its unit",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, path, err := installed()
			if err != nil {
				return err
			}
			return uninstall(cmd.Context(), cmd.OutOrStdout(), m, path)
		},
	}
}

// uninstall removes the unit even if the manager does not answer: one that does not run
// has started no gateway.
func uninstall(ctx context.Context, out io.Writer, m manager, path string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stopped := m.stop(ctx, path)
	if err := os.Remove(path); err != nil {
		return failure.Newf(failure.Config, "remove the unit: %w", errors.Join(err, stopped))
	}
	fmt.Fprintf(out, "removed %s\n", path)
	if stopped != nil {
		return stopped
	}
	return m.reload(ctx)
}

func newStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say whether the service is installed and runs",
		Long: `Say whether the service is installed and runs. The exit code is 0 if it runs.
"toolgate status" has what its gateway does.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, path, err := installed()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			fmt.Fprintf(cmd.OutOrStdout(), "installed  %s\n", path)
			line, runs, err := m.state(ctx)
			switch {
			case err != nil:
				return err
			case !runs:
				return failure.Newf(failure.Unreachable, "the service does not run: %s; its log: %s; to start it: %s", line, m.log(), m.next(path, true))
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		},
	}
}

// installed returns the manager of this system and the path of the unit, which toolgate
// has written.
func installed() (manager, string, error) {
	m, ok := managers[runtime.GOOS]
	if !ok {
		return nil, "", failure.Newf(failure.Usage, "toolgate installs no service on %s; `toolgate service install` says what to do instead", runtime.GOOS)
	}
	path, err := m.path()
	if err != nil {
		return nil, "", err
	}
	there, err := own(path)
	if err != nil {
		return nil, "", err
	}
	if !there {
		return nil, "", failure.Newf(failure.Usage, "no service is installed: %s does not exist; `toolgate service install FILE` writes it", path)
	}
	return m, path, nil
}
