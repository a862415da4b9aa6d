// Package spelling finds names that may be meant for one another.
package spelling

import (
	"strings"
)

// Similar reports whether a name may be meant for another: one is a prefix of the
// other, or it may be misspelt.
func Similar(a, b string) bool {
	x, y := strings.ToLower(a), strings.ToLower(b)
	if max(len(x), len(y)) <= maxSpelling && min(len(x), len(y)) >= 3 && (strings.HasPrefix(x, y) || strings.HasPrefix(y, x)) {
		return true
	}
	return Misspelt(a, b)
}

// maxSpelling bounds the compared names, in bytes.
const maxSpelling = 100

// Misspelt reports whether two names differ in a few changed or swapped characters.
func Misspelt(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if max(len(a), len(b)) > maxSpelling {
		return false
	}
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j]+cost, next[j]+1, row[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)] <= max(1, len(b)/4)
}
