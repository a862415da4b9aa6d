package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/store"
)

// newUsage shows the execution log.
func newUsage(o *command.Options) *cobra.Command {
	since, by, suggesting := 24*time.Hour, []string{"tool"}, false
	c := &cobra.Command{
		Use:   "usage",
		Short: "Show which tools are used, by whom, and how they fail",
		Long: `Show what was executed, from the execution log of the running gateway: calls, those
that failed, those that the gateway refused, both by class, how long calls take, and how
large they are.

With --suggest it shows what an operator may want to change: tools that nobody used, tools
that always fail, and limits that were reached. It changes nothing.`,
		Example: "  toolgate audit usage --since 1h\n  toolgate audit usage --by tool,tenant,persona -o json\n  toolgate audit usage --suggest --since 168h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range by {
				if !slices.Contains(store.UsageBy, name) {
					return failure.Newf(failure.Usage, "usage cannot be grouped by %q; write %s", name, strings.Join(store.UsageBy, ", "))
				}
			}
			if suggesting && cmd.Flags().Changed("by") {
				return failure.Newf(failure.Usage, "--suggest goes by tools; leave --by out")
			}
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				if suggesting {
					return suggest(cmd.Context(), o, control, since)
				}
				all, err := control.ToolUsage(cmd.Context(), time.Now().Add(-since), by)
				if err != nil {
					return err
				}
				return o.Print(os.Stdout, usageTable(all, by))
			})
		},
	}
	c.Flags().DurationVar(&since, "since", since, "how far back to look, as a `time`")
	c.Flags().StringSliceVar(&by, "by", by, "what to group by: tool, server, tenant, persona")
	c.Flags().BoolVar(&suggesting, "suggest", false, "show what may be worth a change")
	o.OutputFlag(c)
	return c
}

// suggest shows what an operator may want to change.
func suggest(ctx context.Context, o *command.Options, control *admin.Client, since time.Duration) error {
	used, err := control.ToolUsage(ctx, time.Now().Add(-since), []string{"tool"})
	if err != nil {
		return err
	}
	tools, err := control.Catalog(ctx, admin.CatalogQuery{Kind: "tool", State: store.StateActive})
	if err != nil {
		return err
	}
	all := suggestions(used, tools)
	t := output.Table{Header: []string{"WHAT", "NAME", "SEEN", "TRY"}, Data: map[string]any{"suggestions": all}, Empty: "there is nothing to suggest"}
	for _, s := range all {
		t.Names, t.Rows = append(t.Names, s.Name), append(t.Rows, []string{s.What, s.Name, s.Seen, s.Try})
	}
	return o.Print(os.Stdout, t)
}

// suggestion is something that may be worth a change.
type suggestion struct {
	What string `json:"what"` // unused, fails or limit
	Name string `json:"name"` // of a tool, or a server with a slash
	Seen string `json:"seen"`
	Try  string `json:"try"`
}

// fewCalls is the number of calls from which failures are no accident.
const fewCalls = 3

// limits are the classes of refusals by limits that an operator can change, with what
// changes them.
var limits = map[string]string{
	"budget":              "toolgate budget ls",
	"gateway_busy":        "toolgate config explain limits.bodies",
	"rate_limited":        "toolgate config explain rates",
	"repeated_call":       "toolgate config explain limits.identical_calls",
	"too_many_calls":      "toolgate config explain limits.calls_per_principal",
	"too_many_open_calls": "toolgate config explain limits.rounds",
	"upstream_busy":       "toolgate config explain servers.NAME.concurrency",
	"upstream_too_large":  "toolgate config explain limits.result",
}

// suggestions compares what was used with what there is: first what fails, then limits,
// then what nobody used. A server of which nobody used a tool is one suggestion.
func suggestions(used []admin.ToolUsage, tools []admin.CatalogEntry) []suggestion {
	all := []suggestion{}
	calls := make(map[string]int64)
	for i := range used {
		u := &used[i]
		name := u.Group["tool"]
		calls[name] = u.Calls
		if reached := u.Calls - u.Refused; reached >= fewCalls && u.Failures == reached {
			all = append(all, suggestion{"fails", name, fmt.Sprintf("all of %d calls", reached), "toolgate audit search 'name=" + name + "'"})
		}
	}
	for i := range used {
		u := &used[i]
		for _, class := range slices.Sorted(maps.Keys(u.Errors)) {
			if try := limits[class]; try != "" {
				all = append(all, suggestion{"limit", u.Group["tool"], fmt.Sprintf("%s, %d of %d calls", class, u.Errors[class], u.Calls), try})
			}
		}
	}
	type unused struct {
		names []string
		of    int
	}
	servers := make(map[string]*unused)
	for i := range tools {
		t := &tools[i]
		if !t.Enabled {
			continue
		}
		s := servers[t.Server]
		if s == nil {
			s = &unused{}
			servers[t.Server] = s
		}
		if s.of++; calls[t.Name] == 0 {
			s.names = append(s.names, t.Name)
		}
	}
	for _, server := range slices.Sorted(maps.Keys(servers)) {
		s := servers[server]
		if len(s.names) == s.of {
			all = append(all, suggestion{"unused", server + "/", fmt.Sprintf("none of its %d tools", s.of), "toolgate config explain servers.NAME.disabled"})
			continue
		}
		slices.Sort(s.names)
		for _, name := range s.names {
			all = append(all, suggestion{"unused", name, "no call", "toolgate catalog disable " + name})
		}
	}
	return all
}

func usageTable(all []admin.ToolUsage, by []string) output.Table {
	t := output.Table{Data: map[string]any{"usage": append([]admin.ToolUsage{}, all...)}, Wide: 2, Empty: "no tool was called in that time"}
	for _, name := range by {
		t.Header = append(t.Header, strings.ToUpper(name))
	}
	t.Header = append(t.Header, "CALLS", "FAILED", "REFUSED", "P50 MS", "P95 MS", "ERRORS", "BYTES IN", "BYTES OUT", "SAVED")
	for i := range all {
		u := &all[i]
		var row, errors []string
		for _, name := range by {
			row = append(row, cmp.Or(u.Group[name], "-"))
		}
		t.Names = append(t.Names, strings.Join(row, " "))
		for _, class := range slices.Sorted(maps.Keys(u.Errors)) {
			errors = append(errors, fmt.Sprintf("%s %d", class, u.Errors[class]))
		}
		share := 100 * float64(u.Failures) / float64(max(1, u.Calls))
		t.Rows = append(t.Rows, append(row, fmt.Sprint(u.Calls), fmt.Sprintf("%d (%.1f%%)", u.Failures, share), fmt.Sprint(u.Refused),
			fmt.Sprintf("%.1f", u.P50MS), fmt.Sprintf("%.1f", u.P95MS), cmp.Or(strings.Join(errors, ", "), "-"), fmt.Sprint(u.BytesIn), fmt.Sprint(u.BytesOut), fmt.Sprint(u.BytesSaved)))
	}
	return t
}
