package search

import (
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/retrieval"
	"github.com/toolgate/toolgate/proxy/findview"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// BenchmarkTokens is what 30 whole tasks cost a model in definitions, with the tools of
// real servers: in the full view all definitions, once for each task, and in the find
// view its five tools and the answer to one search with the words of the task.
func BenchmarkTokens(b *testing.B) {
	const set = "../../../internal/retrieval/testdata/real/"
	tools, err := retrieval.ReadCatalog(set + "tools.jsonl")
	if err != nil {
		b.Fatal(err)
	}
	cases, err := retrieval.ReadCases(set + "queries.jsonl")
	if err != nil {
		b.Fatal(err)
	}
	catalog := NewCatalog(tools)
	full := 0.0
	for i := range catalog.items {
		full += tokensOf(definition(&catalog.items[i]))
	}
	view := 0.0
	for _, t := range findview.Tools() {
		view += tokensOf(t.Raw)
	}
	var answers, recall float64
	tasks := 0
	for i := range cases {
		if cases[i].Kind != "task" || tasks == 30 {
			continue
		}
		tasks++
		found, tokens := catalog.Search(cases[i].Query)
		answers += float64(tokens)
		found = found[:min(len(found), findview.DefaultLimit)]
		score := retrieval.ScoreOf(&cases[i], len(found), func(rank int, name string) bool { return found[rank].Name == name || found[rank].Key == name })
		recall += score.Recall[len(score.Recall)-1]
	}
	if tasks < 30 {
		b.Fatalf("%d tasks", tasks)
	}
	for b.Loop() {
		catalog.Search(cases[0].Query)
	}
	b.ReportMetric(full, "tokens-full/task")
	b.ReportMetric(view+answers/float64(tasks), "tokens-find/task")
	b.ReportMetric(100*recall/float64(tasks), "%-found")
}

func tokensOf(raw []byte) float64 {
	return float64(schemas.Tokens(len(mcp.Lookup(raw, "name")) + len(mcp.Lookup(raw, "description")) + len(mcp.Lookup(raw, "inputSchema"))))
}
