package cli

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/store"
)

// newUsage shows the execution log.
func newUsage(o *options) *cobra.Command {
	since, by := 24*time.Hour, []string{"tool"}
	c := &cobra.Command{
		Use:   "usage",
		Short: "Show which tools are used, by whom, and how they fail",
		Long: `Show what was executed, from the execution log of the running gateway: calls, those
that failed, those that the gateway refused, both by class, how long calls take, and how
large they are.`,
		Example: "  toolgate audit usage --since 1h\n  toolgate audit usage --by tool,tenant,persona -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range by {
				if !slices.Contains(store.UsageBy, name) {
					return failure.Newf(failure.Usage, "usage cannot be grouped by %q; write %s", name, strings.Join(store.UsageBy, ", "))
				}
			}
			return o.withControl(cmd.Context(), func(control *admin.Client) error {
				all, err := control.ToolUsage(cmd.Context(), time.Now().Add(-since), by)
				if err != nil {
					return err
				}
				return o.print(os.Stdout, usageTable(all, by))
			})
		},
	}
	c.Flags().DurationVar(&since, "since", since, "how far back to look, as a `time`")
	c.Flags().StringSliceVar(&by, "by", by, "what to group by: tool, server, tenant, persona")
	o.outputFlag(c)
	return c
}

func usageTable(all []admin.ToolUsage, by []string) table {
	t := table{data: map[string]any{"usage": append([]admin.ToolUsage{}, all...)}, wide: 2, empty: "no tool was called in that time"}
	for _, name := range by {
		t.header = append(t.header, strings.ToUpper(name))
	}
	t.header = append(t.header, "CALLS", "FAILED", "REFUSED", "P50 MS", "P95 MS", "ERRORS", "BYTES IN", "BYTES OUT")
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
		t.rows = append(t.rows, append(row, fmt.Sprint(u.Calls), fmt.Sprintf("%d (%.1f%%)", u.Failures, share), fmt.Sprint(u.Refused),
			fmt.Sprintf("%.1f", u.P50MS), fmt.Sprintf("%.1f", u.P95MS), orDash(strings.Join(errors, ", ")), fmt.Sprint(u.BytesIn), fmt.Sprint(u.BytesOut)))
	}
	return t
}
