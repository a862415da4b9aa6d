package memory

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// maxWords bounds the words of a query that count; the first do.
const maxWords = 64

// match finds texts by words: a text has a score of 1 when all words of the query are in
// it, and 0 when none is. Case and punctuation do not count, and nothing is known of
// what words mean.
type match struct {
	words []string
}

// newMatch returns the match of a query. It matches nothing if the query has no word.
func newMatch(query string) *match {
	m := &match{}
	for word := range wordsOf(query) {
		if len(m.words) == maxWords {
			break
		}
		if !slices.Contains(m.words, word) {
			m.words = append(m.words, word)
		}
	}
	return m
}

// wordsOf returns the words of a text in lower case: runs of letters and digits.
func wordsOf(text string) func(yield func(string) bool) {
	return strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
}

// scored is a text that matches.
type scored struct {
	index  int     // of the text
	score  float64 // the share of the words of the query that are in it
	weight float64 // the same, where words count more that fewer texts have
}

// best returns those of some texts with a score above 0 and of at least threshold. The
// first are those that have the rarest words, so that "the" decides nothing. Of equal
// ones the earlier comes first.
func (m *match) best(texts []string, threshold float64) []scored {
	having := make([]int, len(m.words)) // how many texts have the word
	hits := make([][]int, len(texts))
	for i, text := range texts {
		found := make(map[string]bool)
		for word := range wordsOf(text) {
			found[word] = true
		}
		for n, word := range m.words {
			if found[word] {
				having[n]++
				hits[i] = append(hits[i], n)
			}
		}
	}
	var out []scored
	for i, hit := range hits {
		s := scored{index: i, score: float64(len(hit)) / float64(max(1, len(m.words)))}
		for _, n := range hit {
			s.weight += 1 / float64(having[n])
		}
		if s.score > 0 && s.score >= threshold {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b scored) int { return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(b.score, a.score)) })
	return out
}
