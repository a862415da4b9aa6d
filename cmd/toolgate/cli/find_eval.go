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
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/retrieval"
	"github.com/toolgate/toolgate/proxy/find/learn"
)

func newFindEval(o *command.Options) *cobra.Command {
	var q admin.FindQuestion
	var who callerFlags
	var catalog string
	var past pastSearches
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

  {"server": "github", "name": "list_issues", "description": "...", "inputSchema": {}}

--learned also measures the search with what "toolgate find train" has learned of the
caller's tenant, whether or not that is in force. For a catalog, --pairs has the past
searches, one on each line:

  {"query": "list open bugs", "tool": "github__list_issues", "caller": "ci"}

--past uses that many cases of each tool as past searches, and measures the others.`,
		Example: "  toolgate find eval cases.jsonl --as ci\n  toolgate find eval queries.jsonl --catalog tools.jsonl -o json\n  toolgate find eval queries.jsonl --catalog tools.jsonl --past 10",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cases, err := retrieval.ReadCases(args[0])
			if err != nil {
				return failure.New(failure.Config, err)
			}
			if err := past.check(catalog != ""); err != nil {
				return err
			}
			if catalog != "" {
				return evaluateFile(o, cases, catalog, &past)
			}
			q.As, q.Assumed = who.caller(cmd)
			return withFinder(o, cmd.Context(), func(ctx context.Context, f finder) error {
				return evaluateGateway(ctx, o, f, &q, cases, past.learned)
			})
		},
	}
	who.add(c)
	c.Flags().StringVar(&q.Capsule, "capsule", "", "the endpoint of a `capsule` instead of the main one")
	c.Flags().StringVar(&catalog, "catalog", "", "`file` with the tools, in place of those of a gateway")
	c.Flags().BoolVar(&past.learned, "learned", false, "also with what was learned")
	c.Flags().StringVar(&past.pairs, "pairs", "", "`file` with past searches, for a catalog")
	c.Flags().IntVar(&past.cases, "past", 0, "how many `cases` of each tool are past searches, for a catalog")
	c.Flags().IntVar(&past.callers, "callers", learn.MinCallers, "how many `callers` in --pairs must have called a tool, so that it counts")
	o.OutputFlag(c)
	return c
}

// pastSearches are the flags about what was learned.
type pastSearches struct {
	learned        bool
	pairs          string
	cases, callers int
}

func (p *pastSearches) check(catalog bool) error {
	switch {
	case catalog && p.learned:
		return failure.Newf(failure.Usage, "--learned is for a gateway; use --pairs or --past with --catalog")
	case !catalog && (p.pairs != "" || p.cases != 0):
		return failure.Newf(failure.Usage, "--pairs and --past are for a --catalog; use --learned with a gateway")
	case p.pairs != "" && p.cases != 0:
		return failure.Newf(failure.Usage, "use --pairs or --past, and not both")
	case p.cases < 0 || p.callers < 1:
		return failure.Newf(failure.Usage, "--past and --callers must be positive")
	}
	return nil
}

// of returns what is learned for a catalog, nil for nothing, and the cases that are left
// to measure.
func (p *pastSearches) of(o *command.Options, c *search.Catalog, cases []retrieval.Case, path string) (*learn.Model, []retrieval.Case, error) {
	if p.cases > 0 {
		m, rest := c.Past(cases, p.cases)
		return m, rest, nil
	}
	if p.pairs == "" {
		return nil, cases, nil
	}
	pairs, err := retrieval.ReadPairs(p.pairs)
	if err != nil {
		return nil, nil, failure.New(failure.Config, err)
	}
	m, unknown := c.Learn(pairs, p.callers)
	slices.Sort(unknown)
	warnUnknown(o, slices.Compact(unknown), path, "past searches for it do not count")
	if command.Talks(o) {
		noteModel(m.About)
	}
	return m, cases, nil
}

func noteModel(a learn.About) {
	output.Note("%d past searches of %d callers for %d tools count; %d tools were called too seldom", a.Pairs, a.Callers, a.Tools, a.Left)
}

// evaluateFile measures the search over the catalog of a file.
func evaluateFile(o *command.Options, cases []retrieval.Case, path string, past *pastSearches) error {
	catalog, err := search.ReadCatalog(path)
	if err != nil {
		return failure.New(failure.Config, err)
	}
	warnUnknown(o, search.Unknown(cases, catalog.Has), path, notFound)
	m, cases, err := past.of(o, catalog, cases, path)
	if err != nil {
		return err
	}
	evaluate := func(s interface {
		Search(query string) ([]search.Found, int)
	},
	) ([]retrieval.Row, error) {
		return search.Evaluate(cases, func(query string) ([]search.Found, int, error) {
			found, tokens := s.Search(query)
			return found, tokens, nil
		})
	}
	rows, err := evaluate(catalog)
	if err != nil {
		return err
	}
	if m == nil {
		return printRows(o, rows)
	}
	learned, err := evaluate(search.Learned{Catalog: catalog, Model: m})
	if err != nil {
		return err
	}
	return printRows(o, beside(rows, learned))
}

// beside returns rows and those that were measured with what was learned.
func beside(rows, learned []retrieval.Row) (all []retrieval.Row) {
	for i := range learned {
		learned[i].Kind += ", learned"
	}
	for i := range rows {
		all = append(all, rows[i], learned[i])
	}
	return all
}

// evaluateGateway measures the search of a gateway, also with what was learned if that is
// wanted.
func evaluateGateway(ctx context.Context, o *command.Options, f admin.Finder, q *admin.FindQuestion, cases []retrieval.Case, learned bool) error {
	if !learned {
		rows, err := measureGateway(ctx, f, q, cases)
		if err != nil {
			return err
		}
		return printRows(o, rows)
	}
	var both [2][]retrieval.Row
	for i := range both {
		with := i == 1
		q.Learned = &with
		rows, err := measureGateway(ctx, f, q, cases)
		if err != nil {
			return err
		}
		both[i] = rows
	}
	return printRows(o, beside(both[0], both[1]))
}

// measureGateway measures the search of a gateway, many queries at a time.
func measureGateway(ctx context.Context, f admin.Finder, q *admin.FindQuestion, cases []retrieval.Case) ([]retrieval.Row, error) {
	rankings := make(map[string]*admin.Ranking, len(cases))
	q.Limit = search.Ranks
	for some := range slices.Chunk(cases, admin.MaxQueries) {
		q.Queries = q.Queries[:0]
		for i := range some {
			q.Queries = append(q.Queries, some[i].Query)
		}
		found, err := f.Find(ctx, *q)
		if err != nil {
			return nil, err
		}
		for i := range found.Rankings {
			rankings[found.Rankings[i].Query] = &found.Rankings[i]
		}
	}
	return search.Evaluate(cases, func(query string) (found []search.Found, tokens int, err error) {
		r := rankings[query]
		if r == nil {
			return nil, 0, failure.Newf(failure.Unreachable, "the gateway did not rank the tools for %q", query)
		}
		for _, t := range r.Tools {
			found = append(found, search.Found{Name: t.Name, Key: t.Server + "/" + t.Original})
		}
		return found, r.Tokens, nil
	})
}

// notFound is what becomes of needs that nothing can meet.
const notFound = "these needs count as not found"

// warnUnknown tells a person which names nothing has, and what follows.
func warnUnknown(o *command.Options, names []string, where, so string) {
	if len(names) > 0 && command.Talks(o) {
		const most = 5
		more := ""
		if len(names) > most {
			more = fmt.Sprintf(" and %d more", len(names)-most)
		}
		output.Warn("%s has no %s%s, so that %s", where, strings.Join(names[:min(len(names), most)], ", "), more, so)
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
