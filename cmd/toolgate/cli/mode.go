package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/target"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
)

func newModeCommand(o *options) *cobra.Command {
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
			m, err := o.changeMode(cmd.Context(), word(args), reason)
			if err != nil {
				return err
			}
			return o.print(os.Stdout, modeTable(&m))
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "`text`; stored with the mode")
	o.outputFlag(c)
	return c
}

// changeMode sets the mode unless it is empty, and returns the mode in force: that of the
// running gateway, or that of the store if none runs.
func (o *options) changeMode(ctx context.Context, mode, reason string) (admin.Mode, error) {
	if mode == "" && reason != "" {
		return admin.Mode{}, failure.Newf(failure.Usage, "a reason needs a mode; write toolgate mode MODE --reason TEXT")
	}
	path, err := o.target(ctx)
	if err != nil {
		return admin.Mode{}, err
	}
	control, err := target.Client(path)
	if err != nil {
		return admin.Mode{}, err
	}
	m, err := useMode(ctx, control, mode, reason)
	if !errors.Is(err, admin.ErrNotRunning) {
		return m, controlError(err)
	}
	c, err := o.readConfig(path)
	if err != nil {
		return admin.Mode{}, err
	}
	state, err := statedir.Open(c.Path)
	if err != nil {
		return admin.Mode{}, err
	}
	if err := mayRun(o, c, state); err != nil {
		return admin.Mode{}, err
	}
	in, err := daemon.New(ctx, o.daemon(), c, state, "")
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

func modeTable(m *admin.Mode) table {
	t := table{header: []string{"MODE", "SINCE", "ACTOR", "REASON"}, data: m, names: []string{m.Mode}}
	since := "-"
	if m.Since != nil {
		since = m.Since.Local().Format(time.DateTime)
	}
	t.rows = [][]string{{m.Mode, since, m.Actor, m.Reason}}
	return t
}

// printOperation prints the mode unless it is NORMAL, and what is wrong.
func printOperation(s *admin.Status) {
	if m := s.Mode; m != nil && m.Mode != string(governance.Normal) {
		by := ""
		if m.Since != nil {
			by = fmt.Sprintf(" since %s, by %s: %s", m.Since.Local().Format(time.DateTime), m.Actor, m.Reason)
		}
		say("mode %s%s\n", m.Mode, by)
	}
	if s.NotReady != "" {
		say("not ready: %s: %s\n", s.NotReady, s.Detail)
	}
	for _, a := range s.Alarms {
		say("alarm: %s\n", a)
	}
}
