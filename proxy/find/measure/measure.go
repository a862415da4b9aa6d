// Package measure measures how well a ranking serves queries whose answers are known:
// recall, MRR and nDCG, and the files that hold such queries.
package measure

import (
	"math"
	"slices"
)

// Query is a query with what answers it.
type Query struct {
	ID    string `json:"id"`
	Query string `json:"query"`
	// Relevant are all items that answer it, as "server/name".
	Relevant []string `json:"relevant"`
	// Needs is what the query needs, each as a list of items of which one is enough. If
	// it is empty, each item of Relevant is a need of its own.
	Needs [][]string `json:"needs,omitempty"`
	// Kind groups queries: means of different kinds say nothing together.
	Kind string `json:"kind"`
}

// needs returns what the query needs.
func (q *Query) needs() [][]string {
	if len(q.Needs) > 0 {
		return q.Needs
	}
	all := make([][]string, len(q.Relevant))
	for i, r := range q.Relevant {
		all[i] = []string{r}
	}
	return all
}

// Depths are the k of recall at k.
var Depths = [...]int{1, 3, 5, 8, 10}

// depth is how many ranks MRR and nDCG look at.
const depth = 10

// Score is how well one ranking serves one query, from 0 to 1.
type Score struct {
	Recall [len(Depths)]float64 // the part of the needs that are met among the first k
	MRR    float64              // 1 / rank of the first relevant item (Voorhees, 1999)
	NDCG   float64              // at 10 (Järvelin and Kekäläinen, 2002)
}

// Of measures a ranking, best first. A query without needs scores zero.
func Of(q *Query, ranking []string) Score {
	needs := q.needs()
	if len(needs) == 0 {
		return Score{}
	}
	var s Score
	met := make([]bool, len(needs))
	gain, ideal, count := 0.0, 0.0, 0
	for i, item := range ranking[:min(len(ranking), depth)] {
		fresh, relevant := false, false
		for j, need := range needs {
			if !slices.Contains(need, item) {
				continue
			}
			relevant = true
			if !met[j] {
				met[j], fresh = true, true
				count++
			}
		}
		if relevant && s.MRR == 0 {
			s.MRR = 1 / float64(i+1)
		}
		if fresh {
			gain += 1 / math.Log2(float64(i+2))
		}
		for k, d := range Depths {
			if i < d {
				s.Recall[k] = float64(count) / float64(len(needs))
			}
		}
	}
	for i := range min(depth, len(needs)) {
		ideal += 1 / math.Log2(float64(i+2))
	}
	s.NDCG = gain / ideal
	return s
}

// Summary is the mean of the scores of a group of queries.
type Summary struct {
	N int
	Score
	// Interval is 1.96 standard errors of recall at 5.
	Interval float64
}

// fifth is the position of 5 in [Depths].
const fifth = 2

// Mean returns the mean of scores, and the zero Summary for none.
func Mean(scores []Score) Summary {
	m := Summary{N: len(scores)}
	if m.N == 0 {
		return m
	}
	n, square := float64(m.N), 0.0
	for _, s := range scores {
		for k := range Depths {
			m.Recall[k] += s.Recall[k] / n
		}
		m.MRR += s.MRR / n
		m.NDCG += s.NDCG / n
	}
	for _, s := range scores {
		d := s.Recall[fifth] - m.Recall[fifth]
		square += d * d
	}
	if m.N > 1 {
		m.Interval = 1.96 * math.Sqrt(square/(n-1)) / math.Sqrt(n)
	}
	return m
}
