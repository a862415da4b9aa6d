package retrieval

import (
	"fmt"
	"testing"
)

// TestSplit takes up to n cases of a tool, at most half, and none that several tools
// answer.
func TestSplit(t *testing.T) {
	var cases []Case
	for i := range 30 {
		cases = append(cases, Case{Query: fmt.Sprint("many ", i), Relevant: []string{"many"}}, Case{Query: fmt.Sprint("both ", i), Relevant: []string{"many", "few"}})
	}
	for i := range 5 {
		cases = append(cases, Case{Query: fmt.Sprint("few ", i), Needs: [][]string{{"few"}}})
	}
	past, rest := Split(cases, 10)
	taken := map[string]int{}
	for i := range past {
		needs := past[i].AllNeeds()
		if len(needs) != 1 {
			t.Errorf("%q is taken", past[i].Query)
		}
		taken[needs[0][0]]++
	}
	if taken["many"] != 10 || taken["few"] != 2 || len(past)+len(rest) != len(cases) {
		t.Errorf("taken: %v; %d are left of %d", taken, len(rest), len(cases))
	}
}
