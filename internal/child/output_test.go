package child

import (
	"strings"
	"testing"
)

// What is kept is the beginning, and with Ends the end as well, however it is cut into
// writes; what is neither is counted.
func TestOutput(t *testing.T) {
	text := strings.Repeat("0123456789", 20)
	for _, most := range []int{0, 1, 7, 100, len(text) - 1, len(text), len(text) + 5} {
		for _, ends := range []bool{false, true} {
			for _, piece := range []int{1, 3, 64, len(text)} {
				o := Output{Max: most, Ends: ends}
				for rest := text; rest != ""; {
					n := min(piece, len(rest))
					if got, err := o.Write([]byte(rest[:n])); got != n || err != nil {
						t.Fatal(got, err)
					}
					rest = rest[n:]
				}
				head, tail, lost := o.Parts()
				first, last := most, 0
				if ends {
					first, last = most/2, most-most/2
				}
				first = min(first, len(text))
				last = min(last, len(text)-first)
				if string(head) != text[:first] || string(tail) != text[len(text)-last:] || lost != int64(len(text)-first-last) {
					t.Errorf("%d of %d in pieces of %d: %q, %q, %d", most, len(text), piece, head, tail, lost)
				}
			}
		}
	}
}
