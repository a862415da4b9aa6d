package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/findview"
)

func newFind(o *command.Options) *cobra.Command {
	q := admin.FindQuestion{}
	var who callerFlags
	c := &cobra.Command{
		Use:   "find WORDS",
		Short: "Rank the tools for what somebody wants to do, with the reasons",
		Long: `Rank the tools that a caller sees for what somebody wants to do, as the find view does.
WHY has the words of the query that matched, where they were found, and their share of
the score. Tools that the caller may not see take no part in it.

The caller is the owner of an API key, or somebody whose token has the claims that
the flags give. If no gateway runs, the servers are started for this command only.`,
		Example: "  toolgate find close the stale pull requests and tell the team\n  toolgate find list open issues --as ci --server github",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Queries = []string{strings.Join(args, " ")}
			q.As, q.Assumed = who.caller(cmd)
			return withFinder(o, cmd.Context(), func(ctx context.Context, f finder) error {
				found, err := f.Find(ctx, q)
				if err != nil {
					return err
				}
				if found.Assumed {
					noteAssumed(found.Caller)
				}
				return printRanking(o, &found)
			})
		},
	}
	who.add(c)
	c.Flags().StringVar(&q.Server, "server", "", "only tools of this `server`")
	c.Flags().StringVar(&q.Capsule, "capsule", "", "the endpoint of a `capsule` instead of the main one")
	c.Flags().IntVar(&q.Limit, "limit", findview.DefaultLimit, fmt.Sprintf("how many `tools` are shown, at most %d", find.MaxHits))
	o.OutputFlag(c)
	c.AddCommand(newFindEval(o), newFindSearches(o), newFindTrain(o), newFindForget(o))
	return c
}

// finder finds, and learns from what was found.
type finder interface {
	admin.Finder
	admin.Learner
}

// withFinder calls use with the running gateway, or with one that is started for this
// command.
func withFinder(o *command.Options, ctx context.Context, use func(context.Context, finder) error) error {
	return o.WithGateway(ctx, func(ctx context.Context, control *admin.Client, own *daemon.Daemon) error {
		if own != nil {
			return use(ctx, own.Control())
		}
		return command.ControlError(use(ctx, control))
	})
}

// printRanking prints the ranking of the only query.
func printRanking(o *command.Options, found *admin.Ranked) error {
	r := &found.Rankings[0]
	t := output.Table{
		Header: []string{"TOOL", "SERVER", "SCORE", "WHY"}, Data: r,
		Empty: fmt.Sprintf("no tool that %s sees matches", found.Caller),
	}
	for _, tool := range r.Tools {
		var why []string
		for _, reason := range tool.Reasons {
			if reason.Word == "" {
				why = append(why, fmt.Sprintf("%s %.0f%%", reason.Field, 100*reason.Share))
				continue
			}
			word := reason.Word
			if reason.Match != reason.Word {
				word += "=" + reason.Match
			}
			why = append(why, fmt.Sprintf("%s in %s %.0f%%", word, reason.Field, 100*reason.Share))
		}
		t.Rows = append(t.Rows, []string{tool.Name, tool.Server, fmt.Sprintf("%.3f", tool.Score), strings.Join(why, ", ")})
		t.Names = append(t.Names, tool.Name)
	}
	if err := o.Print(os.Stdout, t); err != nil || !command.Talks(o) {
		return err
	}
	for _, n := range r.Notes {
		output.Note("%s", n)
	}
	if len(r.Steps) > 1 {
		output.Note("read as: %s", strings.Join(r.Steps, " | "))
	}
	if r.More > 0 {
		output.Note("%d more match; the answer of the find view has about %d tokens", r.More, r.Tokens)
	}
	return nil
}
