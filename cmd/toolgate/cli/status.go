package cli

import (
	"context"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/decide"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/failure"
)

func newStatus(o *command.Options) *cobra.Command {
	var all, jobs bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the running gateway on one screen",
		Long: `Show the running gateway of a configuration: its mode, its servers, circuit breakers
that are not closed, budgets, and calls that wait for an approval. It starts nothing.

With --all it shows the gateways that share a database (cluster.advertise) instead: where
they are, since when, and how many sessions, calls, runs of agents and jobs each has.

With --jobs it shows the calls of this gateway that are in queues for workers (queue.queues):
they wait for a worker, or one runs them.`,
		Args: command.FileArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				switch {
				case all && jobs:
					return failure.Newf(failure.Usage, "--all and --jobs show different things; write one of them")
				case all:
					return printReplicas(cmd.Context(), o, control)
				case jobs:
					return printJobs(cmd.Context(), o, control)
				}
				now, err := overviewOf(cmd.Context(), control)
				if err != nil {
					return err
				}
				return printOverview(o, &now)
			})
		},
		ValidArgsFunction: completeFiles,
	}
	c.Flags().BoolVar(&all, "all", false, "show the gateways that share the database")
	c.Flags().BoolVar(&jobs, "jobs", false, "show the calls that are in queues for workers")
	o.OutputFlag(c)
	return c
}

// printReplicas prints the gateways that share a database.
func printReplicas(ctx context.Context, o *command.Options, control *admin.Client) error {
	list, err := control.Replicas(ctx)
	if err != nil {
		return err
	}
	t := output.Table{Header: []string{"GATEWAY", "ADDRESS", "VERSION", "STATE", "SESSIONS", "CALLS", "RUNS", "JOBS", "SINCE"}, Data: map[string]any{"replicas": list}, Empty: "This gateway is alone: cluster.advertise is not set."}
	for i := range list {
		r := &list[i]
		state := "serves"
		if r.Draining {
			state = "drains"
		}
		if r.Self {
			state += ", this one"
		}
		t.Rows = append(t.Rows, []string{r.ID, r.Address, r.Version, state, strconv.Itoa(r.Sessions), strconv.Itoa(r.Calls), strconv.Itoa(r.Runs), strconv.Itoa(r.Jobs), r.Started.Local().Format(time.DateTime)})
		t.Names = append(t.Names, r.ID)
	}
	return o.Print(os.Stdout, t)
}

// printJobs prints the calls that are in queues for workers.
func printJobs(ctx context.Context, o *command.Options, control *admin.Client) error {
	list, err := allPages(admin.MaxJobs, "jobs", func(last *admin.Job) ([]admin.Job, error) {
		q := admin.JobQuery{Limit: admin.MaxJobs}
		if last != nil {
			q.After = *last
		}
		return control.Jobs(ctx, q)
	})
	if err != nil {
		return err
	}
	t := output.Table{Header: []string{"JOB", "QUEUE", "TOOL", "CALLER", "AS", "AGAIN", "SINCE", "DEADLINE"}, Data: append([]admin.Job{}, list...), Empty: "No call is in a queue for workers."}
	for i := range list {
		j := &list[i]
		as, again := "call", "no"
		if j.Task {
			as = "task"
		}
		if j.Repeats {
			again = "yes"
		}
		t.Rows = append(t.Rows, []string{j.ID, j.Queue, j.Tool, j.Caller, as, again, j.Since.Local().Format(time.DateTime), j.Deadline.Local().Format(time.DateTime)})
		t.Names = append(t.Names, j.ID)
	}
	return o.Print(os.Stdout, t)
}

// completeFiles completes an argument to a configuration file.
func completeFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return []cobra.Completion{"yaml", "yml", "json", "jsonc", "toml"}, cobra.ShellCompDirectiveFilterFileExt
}

// overview describes a running gateway at one time. The field names are stable.
type overview struct {
	Mode      string            `json:"mode"`
	Ready     bool              `json:"ready"`
	NotReady  string            `json:"not_ready,omitempty"`
	Detail    string            `json:"detail,omitempty"`
	Servers   []admin.Server    `json:"servers"`
	Breakers  []admin.Breaker   `json:"breakers"` // that are not closed
	Budgets   []admin.BudgetUse `json:"budgets"`
	Approvals []waiting         `json:"approvals_pending"`
	Pending   []string          `json:"pending"`
	NextStart []string          `json:"at_next_start"`
	Alarms    []string          `json:"alarms"`
}

// waiting is a call that waits for an approval.
type waiting struct {
	ID   string `json:"id"`
	Tool string `json:"tool"`
	Who  string `json:"who"`
}

// overviewOf asks a gateway for everything on the screen.
func overviewOf(ctx context.Context, control *admin.Client) (overview, error) {
	status, err := control.Status(ctx)
	if err != nil {
		return overview{}, err
	}
	now := overview{
		Ready: status.NotReady == "", NotReady: status.NotReady, Detail: status.Detail,
		Servers: append([]admin.Server{}, status.Servers...), Breakers: []admin.Breaker{}, Budgets: []admin.BudgetUse{}, Approvals: []waiting{},
		Pending: append([]string{}, status.Pending...), NextStart: append([]string{}, status.AtNextStart...), Alarms: append([]string{}, status.Alarms...),
	}
	if status.Mode != nil {
		now.Mode = status.Mode.Mode
	}
	breakers, err := control.Breakers(ctx)
	if err != nil {
		return overview{}, err
	}
	for _, b := range breakers {
		if b.State != "closed" {
			now.Breakers = append(now.Breakers, b)
		}
	}
	uses, err := control.BudgetUse(ctx, admin.BudgetQuery{})
	if err != nil {
		return overview{}, err
	}
	now.Budgets = append(now.Budgets, uses...)
	items, err := control.Approvals(ctx, string(gate.ApprovalPending))
	for i := range items {
		who := items[i].Subject
		if items[i].Tenant != "" && items[i].Tenant != gate.DefaultTenant {
			who += " of " + items[i].Tenant
		}
		now.Approvals = append(now.Approvals, waiting{items[i].ID, items[i].Tool, who})
	}
	return now, err
}

// printOverview prints the screen. As data it prints the overview, as names the servers.
func printOverview(o *command.Options, now *overview) error {
	t := serverTable(now.Servers)
	t.Data = now
	if o.Output != "table" && o.Output != "wide" {
		return o.Print(os.Stdout, t)
	}
	state := "ready"
	if !now.Ready {
		state = "not ready: " + now.NotReady + ": " + now.Detail
	}
	output.Say("mode %s, %s\n\n", now.Mode, output.Printable(state))
	if err := o.Print(os.Stdout, t); err != nil {
		return err
	}
	for _, b := range now.Breakers {
		output.Say("breaker   %s: %s\n", output.Printable(strings.TrimSuffix(b.Server+" "+b.Tool, " ")), output.Printable(strings.TrimSuffix(b.State+" ("+b.Why+")", " ()")))
	}
	if len(now.Budgets) > 0 {
		output.Say("\n")
		if err := o.Print(os.Stdout, decide.BudgetTable(now.Budgets)); err != nil {
			return err
		}
	}
	for _, w := range now.Approvals {
		output.Say("approval  %s: %s for %s\n", output.Printable(w.ID), output.Printable(w.Tool), output.Printable(w.Who))
	}
	for _, p := range now.Pending {
		output.Say("pending   %s waits for `toolgate reload`\n", output.Printable(p))
	}
	for _, p := range now.NextStart {
		output.Say("pending   %s waits for the next start\n", output.Printable(p))
	}
	for _, a := range now.Alarms {
		output.Say("alarm     %s\n", output.Printable(a))
	}
	return nil
}

// healthTime bounds a health check.
const healthTime = 3 * time.Second

func newHealthcheck() *cobra.Command {
	return &cobra.Command{
		Hidden: true,
		Use:    "healthcheck [URL]",
		Short:  "Check the health of a gateway, for containers",
		Long: `Ask a gateway at /readyz whether it serves. The exit code is 0 if it does and 4 if it
does not. The default address is that of this machine.`,
		Example: "  toolgate healthcheck\n  toolgate healthcheck http://127.0.0.1:7777",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			url := "http://127.0.0.1:7777"
			if len(args) > 0 {
				url = strings.TrimRight(args[0], "/")
			}
			r, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, url+"/readyz", http.NoBody)
			if err != nil {
				return failure.Newf(failure.Usage, "%s is not a URL: %w", url, err)
			}
			resp, err := (&http.Client{Timeout: healthTime}).Do(r)
			if err != nil {
				return failure.Newf(failure.Unreachable, "no gateway answers at %s: %w", url, err)
			}
			defer resp.Body.Close()
			word, _ := io.ReadAll(io.LimitReader(resp.Body, 256)) // the status says enough
			if resp.StatusCode != http.StatusOK {
				return failure.Newf(failure.Unreachable, "the gateway at %s does not serve: %s", url, strings.TrimSpace(string(word)))
			}
			return nil
		},
	}
}
