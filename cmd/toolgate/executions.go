package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// execution adds a closed call of a tool to the execution log, which nobody waits
// for. What no server has is no tool.
func (in *instance) execution(e *audit.Entry) {
	if !executed || e.Method != mcp.MethodToolsCall || e.Server == "" {
		return
	}
	in.executions.Add(store.Execution{
		At: e.Time, CallID: e.CallID, Server: e.Server, Tool: e.Name, Tenant: e.Principal.Tenant, Persona: e.Principal.Persona,
		Session: e.Session, Success: e.Outcome == audit.OutcomeOK, ErrorClass: errorClass(e),
		Duration: time.Duration(e.DurationUS) * time.Microsecond, Upstream: time.Duration(e.UpstreamUS) * time.Microsecond,
		RequestSize: e.BytesIn, ResponseSize: e.BytesOut, ArgsHash: e.ArgsHash,
	})
}

// errorClass is why a call is no success: the kind of the refusal, or the outcome.
func errorClass(e *audit.Entry) string {
	switch {
	case e.Outcome == audit.OutcomeOK:
		return ""
	case e.Outcome == audit.OutcomeDenied && e.Code != "":
		return e.Code
	}
	return string(e.Outcome)
}

// ToolUsage implements [admin.UsageReader].
func (in *instance) ToolUsage(ctx context.Context, since time.Time, by []string) ([]admin.ToolUsage, error) {
	all, err := in.executions.Usage(ctx, since, by...)
	if err != nil {
		return nil, err
	}
	out := make([]admin.ToolUsage, 0, len(all))
	for i := range all {
		u := &all[i]
		one := admin.ToolUsage{
			Group: map[string]string{}, Calls: u.Calls, Failures: u.Failures, Errors: u.Errors,
			P50MS: float64(u.P50.Microseconds()) / 1000, P95MS: float64(u.P95.Microseconds()) / 1000, BytesIn: u.BytesIn, BytesOut: u.BytesOut,
		}
		for n, name := range by {
			one.Group[name] = u.Group[n]
		}
		out = append(out, one)
	}
	return out, nil
}

func newUsageCommand(o *options) *cobra.Command {
	since, by, path := 24*time.Hour, []string{"tool"}, ""
	c := &cobra.Command{
		Use:   "usage",
		Short: "Show which tools are used, by whom, and how they fail",
		Long: `Show what was executed, from the execution log of the running gateway: calls,
failures by their class, how long calls take, and what they carry. Refused calls
of a tool count as failures.`,
		Example: "  toolgate usage --since 1h\n  toolgate usage --by tool,tenant,persona -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range by {
				if !slices.Contains(store.UsageBy, name) {
					return failure.Newf(failure.Usage, "usage cannot be shown by %q; write %s", name, strings.Join(store.UsageBy, ", "))
				}
			}
			return o.withControl(path, func(control *admin.Client) error {
				all, err := control.ToolUsage(cmd.Context(), time.Now().Add(-since), by)
				if err != nil {
					return err
				}
				return o.print(os.Stdout, usageTable(all, by))
			})
		},
	}
	c.Flags().DurationVar(&since, "since", since, "how long ago the `time` begins that is looked at")
	c.Flags().StringSliceVar(&by, "by", by, "what to group by: tool, server, tenant, persona")
	c.Flags().StringVar(&path, "file", "", "configuration `file`, like the argument of up")
	o.outputFlag(c)
	return c
}

func usageTable(all []admin.ToolUsage, by []string) table {
	t := table{data: map[string]any{"usage": append([]admin.ToolUsage{}, all...)}, wide: 2}
	for _, name := range by {
		t.header = append(t.header, strings.ToUpper(name))
	}
	t.header = append(t.header, "CALLS", "FAILED", "P50 MS", "P95 MS", "ERRORS", "BYTES IN", "BYTES OUT")
	for i := range all {
		u := &all[i]
		var row, errors []string
		for _, name := range by {
			row = append(row, orDash(u.Group[name]))
		}
		t.names = append(t.names, strings.Join(row, " "))
		for _, class := range slices.Sorted(maps.Keys(u.Errors)) {
			errors = append(errors, fmt.Sprintf("%s %d", class, u.Errors[class]))
		}
		share := 100 * float64(u.Failures) / float64(max(1, u.Calls))
		t.rows = append(t.rows, append(row, fmt.Sprint(u.Calls), fmt.Sprintf("%d (%.1f%%)", u.Failures, share),
			fmt.Sprintf("%.1f", u.P50MS), fmt.Sprintf("%.1f", u.P95MS), orDash(strings.Join(errors, ", ")), fmt.Sprint(u.BytesIn), fmt.Sprint(u.BytesOut)))
	}
	return t
}
