package learn_test

import (
	"flag"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/retrieval"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/find/learn"
)

var whole = flag.Bool("whole", false, "TestQuality measures all queries, and not one of ten")

func hash(text string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32()
}

// TestQuality measures MetaTool with ten past searches for each tool, which are none of
// those that are measured. The weights were chosen on the half that is not held. The
// tools of half B are also measured while only those of half A have past searches. With
// -whole -v all figures are printed.
func TestQuality(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "internal", "retrieval", "testdata", "metatool")
	tools, err := retrieval.ReadCatalog(filepath.Join(folder, "tools.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	cases, err := retrieval.ReadCases(filepath.Join(folder, "queries.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	items := make([]find.Item, len(tools))
	for i, x := range tools {
		items[i] = find.Item{Kind: mcp.Tool, Server: x.Server, Name: x.Name, Description: x.Description, Schema: x.InputSchema}
	}
	view := find.Build(items, nil, nil).View(func(int) bool { return true })
	past, rest := retrieval.Split(cases, 10)
	halfA := func(c *retrieval.Case) bool { return hash(c.Relevant[0])%2 == 0 }
	var all, some []learn.Pair
	for i := range past {
		server, name, _ := strings.Cut(past[i].Relevant[0], "/")
		p := learn.Pair{Query: past[i].Query, Server: server, Tool: name, Caller: fmt.Sprint(i % 3)}
		all = append(all, p)
		if halfA(&past[i]) {
			some = append(some, p)
		}
	}
	var sums retrieval.Sums
	models := map[string]*learn.Model{"words alone": nil, "learned": learn.Train(all, 3), "half of the tools learned": learn.Train(some, 3)}
	for i := range rest {
		c := &rest[i]
		if !*whole && c.Kind == "single" && (hash(c.ID)>>8)%10 != 0 {
			continue
		}
		half := map[bool]string{false: "fitted", true: "held"}[hash(c.ID)%2 == 1]
		for name, m := range models {
			r := view.Search(find.Query{Text: c.Query, Limit: retrieval.Depth, Boost: m.Advise(c.Query, view)})
			score := retrieval.ScoreOf(c, len(r.Hits), func(rank int, name string) bool { return tools[r.Hits[rank].Item].Key() == name })
			kinds := []string{c.Kind, c.Kind + ", " + half}
			if len(c.Relevant) == 1 {
				kinds = append(kinds, c.Kind+map[bool]string{true: ", of half A", false: ", of half B"}[halfA(c)])
			}
			for _, k := range kinds {
				sums.Add(k+", "+name, score, 0)
			}
		}
	}
	got := map[string]float64{}
	for _, r := range sums.Rows() {
		got[r.Kind] = r.Recall5
		t.Logf("%-50s %5d  R@1 %.1f  R@3 %.1f  R@5 %.1f ±%.1f  R@8 %.1f", r.Kind, r.N, r.Recall1, r.Recall3, r.Recall5, r.Interval, r.Recall8)
	}
	for kind, floor := range map[string]float64{"single, learned": 83, "single, held, learned": 82, "single, of half B, half of the tools learned": 72} {
		if got[kind] < floor {
			t.Errorf("%s: recall at 5 is %.1f, below %.1f", kind, got[kind], floor)
		}
	}
}
