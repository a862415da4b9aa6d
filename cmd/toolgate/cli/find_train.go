package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/proxy/find/learn"
)

func newFindTrain(o *command.Options) *cobra.Command {
	q := admin.TrainQuestion{}
	c := &cobra.Command{
		Use:   "train",
		Short: "Learn from the searches that ended in a successful call",
		Long: `Learn from the searches that ended in a successful call, for each tenant apart. Searches
are recorded while find.learning is record, shadow or live. What was learned ranks answers
only where find.learning is live; "toolgate find eval --learned" measures it before.

A tool counts if at least --callers of the tenant have called it after a search, and if
there are three such searches. Then every word of these counts, even one that a single
caller used. LEFT is the number of tools with fewer. On a gateway for one person, one caller is
enough.

SERVED and SHADOW compare the ranks of the tools that were called. SERVED is the mean of 1
divided by the rank in the answers as they were served. SHADOW is the same for answers of
the same length by the model before. A tool that is not in an answer counts as 0. Both are
empty unless find.learning was shadow.`,
		Example: "  toolgate find train\n  toolgate find train --tenant acme --callers 5",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withFinder(o, cmd.Context(), func(ctx context.Context, f finder) error {
				list, err := f.Train(ctx, q)
				if err != nil {
					return err
				}
				return printTrained(o, list)
			})
		},
	}
	c.Flags().StringVar(&q.Tenant, "tenant", "", "only this `tenant`")
	c.Flags().IntVar(&q.Callers, "callers", learn.MinCallers, "how many `callers` must have called a tool, so that it counts")
	o.OutputFlag(c)
	return c
}

func printTrained(o *command.Options, list []admin.Trained) error {
	t := output.Table{
		Header: []string{"TENANT", "KEPT", "SEARCHES", "CALLERS", "TOOLS", "LEFT", "SERVED", "SHADOW", "BETTER", "WORSE"}, Data: list,
		Empty: "no searches are kept that ended in a successful call; find.learning must be record, shadow or live",
	}
	for i := range list {
		r := &list[i]
		row := []string{r.Tenant}
		for _, n := range []int{r.Recorded, r.Pairs, r.Callers, r.Tools, r.Left} {
			row = append(row, fmt.Sprint(n))
		}
		if s := r.Shadow; s != nil {
			row = append(row, fmt.Sprintf("%.3f", s.Served), fmt.Sprintf("%.3f", s.Learned), fmt.Sprint(s.Better), fmt.Sprint(s.Worse))
		} else {
			row = append(row, "", "", "", "")
		}
		t.Rows, t.Names = append(t.Rows, row), append(t.Names, r.Tenant)
	}
	return o.Print(os.Stdout, t)
}

func newFindSearches(o *command.Options) *cobra.Command {
	since, limit := admin.SearchesSince, 100
	c := &cobra.Command{
		Use:   "searches",
		Short: "List the searches that ended in a successful call",
		Long: `List the searches that ended in a successful call, the latest first, with the tool and its
place in the answer. Searches are recorded while find.learning is record, shadow or live.
CALLER is a hash.`,
		Example: "  toolgate find searches --since 1h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since <= 0 || limit < 1 || limit > admin.MaxSearches {
				return failure.Newf(failure.Usage, "--since must be a time such as 24h, and --limit 1 to %d", admin.MaxSearches)
			}
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				list, err := control.Searches(cmd.Context(), time.Now().Add(-since), limit)
				if err != nil {
					return err
				}
				t := output.Table{Header: []string{"AT", "TENANT", "CALLER", "TOOL", "PLACE", "QUERY"}, Data: list, Empty: "no search in that time ended in a successful call; find.learning must be record, shadow or live"}
				for i := range list {
					s := &list[i]
					t.Rows = append(t.Rows, []string{s.At.Local().Format(time.DateTime), s.Tenant, s.Caller, s.Tool, strconv.Itoa(s.Place), oneLine(s.Query)})
					t.Names = append(t.Names, s.Tool)
				}
				return o.Print(os.Stdout, t)
			})
		},
	}
	c.Flags().DurationVar(&since, "since", since, "how far back to look, as a `time`")
	c.Flags().IntVar(&limit, "limit", limit, "how many `searches` to list")
	o.OutputFlag(c)
	return c
}

func newFindForget(o *command.Options) *cobra.Command {
	return &cobra.Command{
		Use:     "forget TENANT",
		Short:   "Forget the searches of a tenant and what was learned of them",
		Example: "  toolgate find forget acme",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withFinder(o, cmd.Context(), func(ctx context.Context, f finder) error {
				did, err := f.Forget(ctx, args[0])
				if err != nil {
					return err
				}
				output.Note("%d searches of %s are forgotten", did.Pairs, args[0])
				return nil
			})
		},
	}
}
