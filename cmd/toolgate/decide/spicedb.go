package decide

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
)

func NewSpiceDB(o *command.Options) *cobra.Command {
	c := &cobra.Command{Use: "spicedb", Short: "Check and fill SpiceDB; see toolgate doctor and toolgate catalog sync", Hidden: true}
	check := &cobra.Command{
		Use:   "check",
		Short: "Check that SpiceDB can answer what toolgate asks",
		Long: `Check that the SpiceDB of a configuration answers, that its schema has the types and
permissions that toolgate asks for, that its caveats accept what toolgate sends, and
that it can be watched. Nothing is written.`,
		Args: command.FileArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error { return checkSpiceDB(o, cmd.Context()) },
	}
	o.OutputFlag(check)
	c.AddCommand(check, newSync(o))
	return c
}

// newSync writes to SpiceDB what the catalog has.
func newSync(o *command.Options) *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "sync",
		Short: "Write to SpiceDB which tool is on which server",
		Long: `Write, for every tool, prompt and resource that the gateway exposes, which server it
is on. Whoever may execute a server may then execute all that it offers. Existing
relations are not written again, and nothing is deleted.`,
		Example: "  toolgate catalog sync --dry-run",
		Args:    command.FileArgument(o),
		RunE:    func(cmd *cobra.Command, args []string) error { return syncSpiceDB(o, cmd.Context(), dry) },
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be written")
	o.OutputFlag(c)
	return c
}

// SpiceDBPhase returns the phase that asks the SpiceDB of a configuration. The caller closes it.
func SpiceDBPhase(c *config.Config) (*spicedb.Phase, error) {
	if c.Toolgate.SpiceDB.Endpoint == "" {
		return nil, failure.Newf(failure.Config, "%s configures no SpiceDB; write its address as spicedb: { endpoint: host:port } under toolgate", c.Path)
	}
	r, err := build.NewRelations(c, build.Surroundings{})
	if err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
	}
	return r.Phase, nil
}

// foundProblem is a problem of SpiceDB as `check` shows it.
type foundProblem struct {
	Level string `json:"level"`
	What  string `json:"what"`
	Do    string `json:"do"`
}

func checkSpiceDB(o *command.Options, ctx context.Context) error {
	c, err := o.LoadTarget(ctx)
	if err != nil {
		return err
	}
	if _, err := command.OpenState(o, c); err != nil {
		return err
	}
	phase, err := SpiceDBPhase(c)
	if err != nil {
		return err
	}
	defer phase.Close()
	found := []foundProblem{}
	t := output.Table{Header: []string{"LEVEL", "PROBLEM", "WHAT TO DO"}}
	wrong := 0
	for _, p := range phase.Diagnose(ctx) {
		row := foundProblem{Level: "error", What: p.What, Do: p.Do}
		if p.Warning {
			row.Level = "warning"
		} else {
			wrong++
		}
		found = append(found, row)
		t.Rows = append(t.Rows, []string{row.Level, row.What, row.Do})
		t.Names = append(t.Names, row.What)
	}
	if len(found) == 0 && (o.Output == "table" || o.Output == "wide") {
		output.Say("%s answers, and its schema has what toolgate asks for\n", c.Toolgate.SpiceDB.Endpoint)
		return nil
	}
	t.Data = map[string]any{"endpoint": c.Toolgate.SpiceDB.Endpoint, "problems": found}
	if err := o.Print(os.Stdout, t); err != nil {
		return err
	}
	switch {
	case wrong == 0:
		return nil
	case phase.Status().Reason == spicedb.ReasonUnavailable:
		return failure.Newf(failure.Unreachable, "%s does not answer", c.Toolgate.SpiceDB.Endpoint)
	}
	return failure.Newf(failure.Config, "%s cannot answer what toolgate asks: %s", c.Toolgate.SpiceDB.Endpoint, screen.Count(wrong, "problem"))
}

// synced is the result of `sync`.
type synced struct {
	DryRun    bool     `json:"dry_run"`
	Written   []string `json:"written"`
	Kept      int      `json:"kept"`
	Elsewhere []string `json:"elsewhere"`
}

func syncSpiceDB(o *command.Options, ctx context.Context, dry bool) error {
	c, err := o.LoadTarget(ctx)
	if err != nil {
		return err
	}
	return o.WithGateway(ctx, func(ctx context.Context, control *admin.Client, own *daemon.Daemon) error {
		phase, err := SpiceDBPhase(c)
		if err != nil {
			return err
		}
		defer phase.Close()
		var lister admin.CatalogLister = control
		if own != nil {
			lister = own.Control()
		}
		exposed, err := lister.Capabilities(ctx)
		if err != nil {
			return command.ControlError(err)
		}
		do := phase.Sync
		if dry {
			do = phase.Plan
		}
		report, err := do(ctx, onServers(exposed))
		if err != nil && len(report.Written) == 0 {
			return failure.New(failure.Unreachable, err)
		}
		return errors.Join(printSynced(o, &report, dry), failure.New(failure.Unreachable, err))
	})
}

// onServers returns capabilities in the form that a sync needs.
func onServers(all []admin.Capability) []spicedb.Capability {
	kinds := make(map[string]mcp.Kind, len(mcp.Kinds))
	for _, kind := range mcp.Kinds {
		kinds[kind.String()] = kind
	}
	out := make([]spicedb.Capability, 0, len(all))
	for _, c := range all {
		out = append(out, spicedb.Capability{
			Kind: kinds[c.Kind], Server: c.Server, Original: c.Original, Exposed: c.Name, Unsuffixed: c.Unsuffixed, CapabilityID: c.CapabilityID,
		})
	}
	return out
}

// printSynced prints what was written, or would be.
func printSynced(o *command.Options, r *spicedb.SyncReport, dry bool) error {
	t := output.Table{
		Header: []string{"RELATIONSHIP", "STATE"}, Names: r.Written,
		Data: synced{DryRun: dry, Written: append([]string{}, r.Written...), Kept: r.Kept, Elsewhere: append([]string{}, r.Elsewhere...)},
	}
	state := "written"
	if dry {
		state = "would be written"
	}
	for _, w := range r.Written {
		t.Rows = append(t.Rows, []string{w, state})
	}
	for _, e := range r.Elsewhere {
		t.Rows = append(t.Rows, []string{e, "on another server: delete it unless that is meant"})
	}
	if err := o.Print(os.Stdout, t); err != nil || o.Output != "table" && o.Output != "wide" {
		return err
	}
	output.Say("%d %s, %d already there\n", len(r.Written), state, r.Kept)
	return nil
}
