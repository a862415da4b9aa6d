package retrieval

import (
	"math"
	"testing"
)

func ranking(names ...string) (int, func(int, string) bool) {
	return len(names), func(rank int, name string) bool { return names[rank] == name }
}

func near(a, b float64) bool { return math.Abs(a-b) < 0.0005 }

func TestScoreOf(t *testing.T) {
	two := [][]string{{"a/x", "b/x"}, {"c/y"}}
	for name, c := range map[string]struct {
		c       Case
		ranking []string
		want    Score
	}{
		"alternatives":       {Case{Needs: two}, []string{"z/z", "b/x", "a/x", "c/y"}, Score{[4]float64{0, 0.5, 1, 1}, 0.5, 0.651}},
		"nothing found":      {Case{Needs: two}, nil, Score{}},
		"none relevant":      {Case{Relevant: []string{"a"}}, []string{"b"}, Score{}},
		"ideal":              {Case{Relevant: []string{"a", "b"}}, []string{"b", "a"}, Score{[4]float64{0.5, 1, 1, 1}, 1, 1}},
		"below the depth":    {Case{Relevant: []string{"k"}}, []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"}, Score{}},
		"one of two by one":  {Case{Needs: [][]string{{"a"}, {"a"}}}, []string{"a"}, Score{[4]float64{1, 1, 1, 1}, 1, 1 / (1 + 1/math.Log2(3))}},
		"at the ninth place": {Case{Relevant: []string{"i"}}, []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}, Score{[4]float64{}, 1.0 / 9, 1 / math.Log2(10)}},
	} {
		t.Run(name, func(t *testing.T) {
			n, is := ranking(c.ranking...)
			got := ScoreOf(&c.c, n, is)
			if got.Recall != c.want.Recall || !near(got.MRR, c.want.MRR) || !near(got.NDCG, c.want.NDCG) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestRows(t *testing.T) {
	var s Sums
	hit, miss := Score{Recall: [4]float64{1, 1, 1, 1}, MRR: 1, NDCG: 1}, Score{}
	for i := range 4 {
		s.Add("step", [...]Score{hit, miss}[i%2], 100*(i+1))
	}
	s.Add("", hit, 7)
	rows := s.Rows()
	if len(rows) != 2 || rows[0].Kind != "all" || rows[1].Kind != "step" {
		t.Fatalf("got %+v", rows)
	}
	if r := rows[0]; r.N != 1 || r.Interval != 0 || r.Recall5 != 100 || r.Tokens != 7 {
		t.Errorf("one case: %+v", r)
	}
	// The deviation of 100, 0, 100, 0 is 57.735, and half of it is its standard error.
	if r := rows[1]; r.N != 4 || r.Recall5 != 50 || !near(r.Interval, 1.96*57.735/2) || r.Tokens != 250 || r.MaxTokens != 400 {
		t.Errorf("four cases: %+v", r)
	}
}
