package find_test

import (
	"flag"
	"hash/fnv"
	"path/filepath"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/retrieval"
	"github.com/toolgate/toolgate/proxy/find"
)

var whole = flag.Bool("whole", false, "TestQuality measures all queries, and not one of five of the largest kind")

// set is a development set with its catalog.
type set struct {
	items []find.Item
	keys  []string // by item
	cases []retrieval.Case
}

func readSet(t testing.TB, name string) *set {
	t.Helper()
	folder := filepath.Join("..", "..", "internal", "retrieval", "testdata", name)
	tools, err := retrieval.ReadCatalog(filepath.Join(folder, "tools.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	s := &set{}
	for _, x := range tools {
		s.items = append(s.items, find.Item{
			Kind: mcp.Tool, Server: x.Server, Name: x.Name, Title: x.Title, Description: x.Description, Schema: x.InputSchema,
			ReadOnly: x.Annotations != nil && x.Annotations.ReadOnly != nil && *x.Annotations.ReadOnly,
		})
		s.keys = append(s.keys, x.Key())
	}
	if s.cases, err = retrieval.ReadCases(filepath.Join(folder, "queries.jsonl")); err != nil {
		t.Fatal(err)
	}
	if name == "real" {
		return s
	}
	for i := range s.cases {
		h := fnv.New32a()
		h.Write([]byte(s.cases[i].ID))
		s.cases[i].Held = h.Sum32()%2 == 1
	}
	return s
}

// score searches for a case.
func (s *set) score(v *find.View, c *retrieval.Case) retrieval.Score {
	r := v.Search(find.Query{Text: c.Query, Limit: retrieval.Depth})
	return retrieval.ScoreOf(c, len(r.Hits), func(rank int, name string) bool { return s.keys[r.Hits[rank].Item] == name })
}

// The ranking is as good as it was. The floors are a little below what is reached; with
// -v the figures are printed, by half.
func TestQuality(t *testing.T) {
	for _, c := range []struct {
		set    string
		floors map[string]float64 // of recall at 5, by kind
	}{
		{"livemcpbench", map[string]float64{"step": 87, "task": 43}},
		{"metatool", map[string]float64{"single": 70, "task": 73}},
		{"real", map[string]float64{"single": 61, "step": 92, "task": 46}},
	} {
		t.Run(c.set, func(t *testing.T) {
			s := readSet(t, c.set)
			v := find.Build(s.items, nil, nil).View(everything)
			var sums retrieval.Sums
			for i := range s.cases {
				q := &s.cases[i]
				if c.set == "metatool" && q.Kind == "single" && !*whole && i%5 != 0 {
					continue
				}
				score := s.score(v, q)
				sums.Add(q.Kind, score, 0)
				sums.Add(q.Kind+map[bool]string{false: ", fitted half", true: ", held half"}[q.Held], score, 0)
			}
			for _, r := range sums.Rows() {
				t.Logf("%-20s %5d  R@1 %.1f  R@3 %.1f  R@5 %.1f ±%.1f  R@8 %.1f  MRR %.3f  nDCG@10 %.3f",
					r.Kind, r.N, r.Recall1, r.Recall3, r.Recall5, r.Interval, r.Recall8, r.MRR, r.NDCG)
				if floor, ok := c.floors[r.Kind]; ok && r.Recall5 < floor {
					t.Errorf("%s: recall at 5 is %.1f, below %.1f", r.Kind, r.Recall5, floor)
				}
			}
		})
	}
}
