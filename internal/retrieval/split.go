package retrieval

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// Split takes cases that stand for past searches: up to n of each tool, and never more
// than half of those it has, of the cases that one tool alone answers. Which they are
// depends on the queries alone. The other cases are the rest, in their order.
func Split(cases []Case, n int) (past, rest []Case) {
	by := make(map[string][]int)
	for i := range cases {
		if needs := cases[i].AllNeeds(); len(needs) == 1 && len(needs[0]) == 1 {
			by[needs[0][0]] = append(by[needs[0][0]], i)
		}
	}
	taken := make([]bool, len(cases))
	for _, list := range by {
		slices.SortFunc(list, func(a, b int) int {
			return cmp.Or(cmp.Compare(hashOf(cases[a].Query), hashOf(cases[b].Query)), cmp.Compare(a, b))
		})
		for _, i := range list[:min(n, len(list)/2)] {
			taken[i] = true
		}
	}
	for i := range cases {
		if taken[i] {
			past = append(past, cases[i])
		} else {
			rest = append(rest, cases[i])
		}
	}
	return past, rest
}

func hashOf(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}
