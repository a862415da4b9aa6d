package retrieval

import (
	"cmp"
	"math"
	"slices"
)

// Depth is how many ranks the measures look at.
const Depth = 10

// Cutoffs are the k of the recalls.
var Cutoffs = [...]int{1, 3, 5, 8}

// Score is what one ranking achieves for one case.
type Score struct {
	// Recall is, for each of [Cutoffs], the share of the needs that have one of their tools
	// among the first k.
	Recall [len(Cutoffs)]float64
	// MRR is 1 divided by the rank of the first relevant tool, or 0 if it is not among the
	// first [Depth].
	MRR float64
	// NDCG is the discounted cumulative gain of the first [Depth], divided by the ideal
	// one (Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques,
	// 2002). A tool gains 1 if it meets a need that no tool above it met.
	NDCG float64
}

// ScoreOf computes the measures. is reports whether the tool at a rank, counted from 0,
// is the one that a case names.
func ScoreOf(c *Case, ranks int, is func(rank int, name string) bool) Score {
	var s Score
	needs := c.AllNeeds()
	met := make([]int, 0, len(needs)) // the ranks at which the needs are met
	for _, need := range needs {
		for rank := range min(ranks, Depth) {
			if slices.ContainsFunc(need, func(name string) bool { return is(rank, name) }) {
				met = append(met, rank)
				break
			}
		}
	}
	slices.Sort(met)
	for i, k := range Cutoffs {
		within, _ := slices.BinarySearch(met, k)
		s.Recall[i] = float64(within) / float64(len(needs))
	}
	if len(met) > 0 {
		s.MRR = 1 / float64(met[0]+1)
	}
	gain := 0.0
	for _, rank := range slices.Compact(met) {
		gain += discount(rank)
	}
	ideal := 0.0
	for rank := range min(len(needs), Depth) {
		ideal += discount(rank)
	}
	s.NDCG = gain / ideal
	return s
}

func discount(rank int) float64 { return 1 / math.Log2(float64(rank+2)) }

// Row is the mean over the cases of one kind.
type Row struct {
	Kind string `json:"kind"`
	N    int    `json:"n"`
	// Recalls in percent, for each of [Cutoffs].
	Recall1 float64 `json:"recall_1"`
	Recall3 float64 `json:"recall_3"`
	Recall5 float64 `json:"recall_5"`
	// Interval is 1.96 standard errors of Recall5: the mean of all such cases is within it
	// of the mean of these with 95 % confidence.
	Interval float64 `json:"recall_5_interval"`
	Recall8  float64 `json:"recall_8"`
	MRR      float64 `json:"mrr"`
	NDCG     float64 `json:"ndcg_10"`
	// Tokens is the mean number of tokens of an answer, and MaxTokens that of the largest.
	Tokens    float64 `json:"tokens"`
	MaxTokens int     `json:"tokens_max"`
}

// Sums collects the scores of cases by kind. The zero value is ready for use. It is not
// safe for concurrent use.
type Sums struct{ kinds map[string]*sum }

type sum struct {
	scores []Score
	tokens []int
}

// Add adds the score of a case and the number of tokens of the answer.
func (s *Sums) Add(kind string, score Score, tokens int) {
	kind = cmp.Or(kind, "all")
	if s.kinds == nil {
		s.kinds = map[string]*sum{}
	}
	k := s.kinds[kind]
	if k == nil {
		k = &sum{}
		s.kinds[kind] = k
	}
	k.scores = append(k.scores, score)
	k.tokens = append(k.tokens, tokens)
}

// Rows returns a row for each kind, sorted by kind.
func (s *Sums) Rows() []Row {
	rows := make([]Row, 0, len(s.kinds))
	for kind, k := range s.kinds {
		rows = append(rows, k.row(kind))
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Kind, b.Kind) })
	return rows
}

func (k *sum) row(kind string) Row {
	n := float64(len(k.scores))
	mean := func(of func(i int) float64) float64 {
		total := 0.0
		for i := range k.scores {
			total += of(i)
		}
		return total / n
	}
	recall := func(at int) float64 { return mean(func(i int) float64 { return 100 * k.scores[i].Recall[at] }) }
	r := Row{
		Kind: kind, N: len(k.scores),
		Recall1: recall(0), Recall3: recall(1), Recall5: recall(2), Recall8: recall(3),
		MRR:    mean(func(i int) float64 { return k.scores[i].MRR }),
		NDCG:   mean(func(i int) float64 { return k.scores[i].NDCG }),
		Tokens: mean(func(i int) float64 { return float64(k.tokens[i]) }), MaxTokens: slices.Max(k.tokens),
	}
	if len(k.scores) > 1 {
		squares := mean(func(i int) float64 { d := 100*k.scores[i].Recall[2] - r.Recall5; return d * d })
		r.Interval = 1.96 * math.Sqrt(squares*n/(n-1)) / math.Sqrt(n)
	}
	return r
}
