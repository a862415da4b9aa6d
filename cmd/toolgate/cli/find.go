package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/search"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/retrieval"
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
			return withFinder(o, cmd.Context(), func(ctx context.Context, f admin.Finder) error {
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
	c.AddCommand(newFindEval(o))
	return c
}

// withFinder calls use with the running gateway, or with one that is started for this
// command.
func withFinder(o *command.Options, ctx context.Context, use func(context.Context, admin.Finder) error) error {
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

func newFindEval(o *command.Options) *cobra.Command {
	var q admin.FindQuestion
	var who callerFlags
	var catalog string
	c := &cobra.Command{
		Use:   "eval FILE",
		Short: "Measure how well tools are found, with queries whose answers are known",
		Long: `Measure how well the tools are found that a caller needs. FILE has a case on each line:

  {"query": "list open bugs", "relevant": ["github__list_issues"], "kind": "step"}

A tool is named as clients see it or as SERVER/NAME. A query that needs several tools
says so with "needs", a list with the tools of which one is enough for each need. Cases
of one "kind" are reported together. The measures are explained in docs/find.md.

With --catalog no gateway is asked, and nothing is started: the tools are those of a
file with a tool on each line, such as

  {"server": "github", "name": "list_issues", "description": "...", "inputSchema": {}}`,
		Example: "  toolgate find eval cases.jsonl --as ci\n  toolgate find eval queries.jsonl --catalog tools.jsonl -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cases, err := retrieval.ReadCases(args[0])
			if err != nil {
				return failure.New(failure.Config, err)
			}
			if catalog != "" {
				return evaluateFile(o, cases, catalog)
			}
			q.As, q.Assumed = who.caller(cmd)
			return withFinder(o, cmd.Context(), func(ctx context.Context, f admin.Finder) error { return evaluateGateway(ctx, o, f, &q, cases) })
		},
	}
	who.add(c)
	c.Flags().StringVar(&q.Capsule, "capsule", "", "the endpoint of a `capsule` instead of the main one")
	c.Flags().StringVar(&catalog, "catalog", "", "`file` with the tools, in place of those of a gateway")
	o.OutputFlag(c)
	return c
}

// evaluateFile measures the search over the catalog of a file.
func evaluateFile(o *command.Options, cases []retrieval.Case, path string) error {
	catalog, err := search.ReadCatalog(path)
	if err != nil {
		return failure.New(failure.Config, err)
	}
	warnUnknown(o, search.Unknown(cases, catalog.Has), path)
	rows, err := search.Evaluate(cases, func(query string) ([]search.Found, int, error) {
		found, tokens := catalog.Search(query)
		return found, tokens, nil
	})
	if err != nil {
		return err
	}
	return printRows(o, rows)
}

// evaluateGateway measures the search of a gateway, many queries at a time.
func evaluateGateway(ctx context.Context, o *command.Options, f admin.Finder, q *admin.FindQuestion, cases []retrieval.Case) error {
	rankings := make(map[string]*admin.Ranking, len(cases))
	q.Limit = search.Ranks
	for some := range slices.Chunk(cases, admin.MaxQueries) {
		q.Queries = q.Queries[:0]
		for i := range some {
			q.Queries = append(q.Queries, some[i].Query)
		}
		found, err := f.Find(ctx, *q)
		if err != nil {
			return err
		}
		for i := range found.Rankings {
			rankings[found.Rankings[i].Query] = &found.Rankings[i]
		}
	}
	rows, err := search.Evaluate(cases, func(query string) (found []search.Found, tokens int, err error) {
		r := rankings[query]
		if r == nil {
			return nil, 0, failure.Newf(failure.Unreachable, "the gateway did not rank the tools for %q", query)
		}
		for _, t := range r.Tools {
			found = append(found, search.Found{Name: t.Name, Key: t.Server + "/" + t.Original})
		}
		return found, r.Tokens, nil
	})
	if err != nil {
		return err
	}
	return printRows(o, rows)
}

// warnUnknown tells a person which names in the cases nothing has.
func warnUnknown(o *command.Options, names []string, where string) {
	if len(names) > 0 && command.Talks(o) {
		const most = 5
		more := ""
		if len(names) > most {
			more = fmt.Sprintf(" and %d more", len(names)-most)
		}
		output.Warn("%s has no %s%s, so that these needs count as not found", where, strings.Join(names[:min(len(names), most)], ", "), more)
	}
}

func printRows(o *command.Options, rows []retrieval.Row) error {
	t := output.Table{
		Header: []string{"KIND", "CASES", "R@1", "R@3", "R@5", "+-", "R@8", "MRR", "NDCG@10", "TOKENS", "MOST"},
		Data:   rows,
	}
	for i := range rows {
		r := &rows[i]
		row := []string{r.Kind, fmt.Sprint(r.N)}
		for _, percent := range []float64{r.Recall1, r.Recall3, r.Recall5, r.Interval, r.Recall8} {
			row = append(row, fmt.Sprintf("%.1f", percent))
		}
		t.Rows = append(t.Rows, append(row, fmt.Sprintf("%.3f", r.MRR), fmt.Sprintf("%.3f", r.NDCG), fmt.Sprintf("%.0f", r.Tokens), fmt.Sprint(r.MaxTokens)))
		t.Names = append(t.Names, fmt.Sprintf("%s %.1f", r.Kind, r.Recall5))
	}
	return o.Print(os.Stdout, t)
}
