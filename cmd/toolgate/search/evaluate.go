package search

import (
	"cmp"
	"maps"
	"slices"

	"github.com/toolgate/toolgate/internal/retrieval"
)

// Evaluate searches for each case and returns the means by kind. Cases that are held out
// are a kind of their own. It returns the first error of search.
func Evaluate(cases []retrieval.Case, search func(query string) (found []Found, tokens int, err error)) ([]retrieval.Row, error) {
	var sums retrieval.Sums
	for i := range cases {
		c := &cases[i]
		found, tokens, err := search(c.Query)
		if err != nil {
			return nil, err
		}
		score := retrieval.ScoreOf(c, len(found), func(rank int, name string) bool { return found[rank].Name == name || found[rank].Key == name })
		kind := cmp.Or(c.Kind, "all")
		if c.Held {
			kind += ", held out"
		}
		sums.Add(kind, score, tokens)
	}
	return sums.Rows(), nil
}

// Unknown returns the names in cases that are not known, sorted.
func Unknown(cases []retrieval.Case, known func(name string) bool) []string {
	missing := map[string]bool{}
	for i := range cases {
		for _, names := range cases[i].AllNeeds() {
			for _, name := range names {
				if !known(name) {
					missing[name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(missing))
}
