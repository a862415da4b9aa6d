package decide

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/failure"
)

func NewMode(o *command.Options) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "mode [MODE]",
		Short: "Show or set the operating mode",
		Long: `Show the operating mode of a gateway, or set it. The mode is kept in the store. It
applies to every gateway that shares the store, at once and after a restart.

  NORMAL    everything is allowed
  ALERT     destructive or high-risk calls need an approval
  DEGRADED  no queued and no high-cost calls
  LOCKDOWN  only what the operator classed read-only and low risk; other
            running calls are cancelled
  RECOVERY  as ALERT, with half the concurrency

A gateway in mode NORMAL that runs short of memory or disk enters DEGRADED
automatically, until there is enough again or somebody sets another mode. The actor
of that mode is toolgate, and it is not kept in the store.`,
		Example:   "  toolgate mode\n  toolgate mode LOCKDOWN --reason 'an agent deletes what it should not'",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: []string{"NORMAL", "ALERT", "DEGRADED", "LOCKDOWN", "RECOVERY"},
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := changeMode(o, cmd.Context(), word(args), reason)
			if err != nil {
				return err
			}
			return o.Print(os.Stdout, modeTable(&m))
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "`text`; stored with the mode")
	o.OutputFlag(c)
	return c
}

// changeMode sets the mode unless it is empty, and returns the mode in force: that of the
// running gateway, or that of the store if none runs.
func changeMode(o *command.Options, ctx context.Context, mode, reason string) (admin.Mode, error) {
	if mode == "" && reason != "" {
		return admin.Mode{}, failure.Newf(failure.Usage, "a reason needs a mode; write toolgate mode MODE --reason TEXT")
	}
	path, control, err := o.Control(ctx)
	if err != nil {
		return admin.Mode{}, err
	}
	m, err := useMode(ctx, control, mode, reason)
	if !errors.Is(err, admin.ErrNotRunning) {
		return m, command.ControlError(err)
	}
	c, err := o.ReadConfig(path)
	if err != nil {
		return admin.Mode{}, err
	}
	state, err := command.OpenState(o, c)
	if err != nil {
		return admin.Mode{}, err
	}
	in, err := daemon.New(ctx, o.Daemon(), c, state, "")
	if err != nil {
		return admin.Mode{}, err
	}
	defer in.Close()
	return useMode(ctx, in.Control(), mode, reason)
}

func useMode(ctx context.Context, k admin.ModeKeeper, mode, reason string) (admin.Mode, error) {
	if mode == "" {
		return k.Mode(ctx)
	}
	return k.SetMode(ctx, mode, reason)
}

func modeTable(m *admin.Mode) output.Table {
	t := output.Table{Header: []string{"MODE", "SINCE", "ACTOR", "REASON"}, Data: m, Names: []string{m.Mode}}
	since := "-"
	if m.Since != nil {
		since = m.Since.Local().Format(time.DateTime)
	}
	t.Rows = [][]string{{m.Mode, since, m.Actor, m.Reason}}
	return t
}

// PrintOperation prints the mode unless it is NORMAL, and what is wrong.
func PrintOperation(s *admin.Status) {
	if m := s.Mode; m != nil && m.Mode != string(governance.Normal) {
		by := ""
		if m.Since != nil {
			by = fmt.Sprintf(" since %s, by %s: %s", m.Since.Local().Format(time.DateTime), m.Actor, m.Reason)
		}
		output.Say("mode %s%s\n", m.Mode, by)
	}
	if s.NotReady != "" {
		output.Say("not ready: %s: %s\n", s.NotReady, s.Detail)
	}
	for _, a := range s.Alarms {
		output.Say("alarm: %s\n", a)
	}
}

// word returns the only argument of a command; empty without one.
func word(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return ""
}
