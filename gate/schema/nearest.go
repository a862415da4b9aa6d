package schema

import "strings"

const (
	// maxCompared is the longest name that is compared, in bytes.
	maxCompared = 64
	// maxCandidates bounds the candidates that a name is compared with.
	maxCandidates = 500
)

// nearest returns the candidate that a name most likely misspells, empty when none is
// close. Of equally close candidates it returns the first.
func nearest(name string, candidates []string) string {
	if len(name) > maxCompared {
		return ""
	}
	folded := fold(name)
	best, least := "", 1+max(1, len(folded)/3)
	for _, candidate := range candidates[:min(len(candidates), maxCandidates)] {
		if candidate == name || len(candidate) > maxCompared {
			continue
		}
		if d := distance(folded, fold(candidate)); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// fold removes the most common differences between spellings of a name.
func fold(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}

// distance returns the number of edits from one text to the other: insert, delete or
// replace a character, or swap two neighbors.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			same := 1
			if x[i-1] == y[j-1] {
				same = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+same)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}
