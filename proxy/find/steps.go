package find

import (
	"slices"
	"strings"
)

// splitSteps splits a query into what it asks for, one after the other: at the ends of
// sentences and lines, at connectives, and at commas. What is short and has no verb belongs
// to the step before it. There are at most maxSteps; if a query has more, the shortest
// neighbours stay together.
func splitSteps(text string) []string {
	var steps []string
	start := 0
	add := func(end int) {
		if s := strings.TrimSpace(text[start:end]); s != "" {
			if len(steps) > 0 && incomplete(s) {
				steps[len(steps)-1] += ", " + s
			} else {
				steps = append(steps, s)
			}
		}
		if len(steps) > 4*maxSteps {
			steps = joinShortest(steps)
		}
	}
	for i := 0; i < len(text); i++ {
		if cut := boundary(text[i:]); cut > 0 {
			add(i)
			start = i + cut
			i = start - 1
		}
	}
	add(len(text))
	for len(steps) > maxSteps {
		steps = joinShortest(steps)
	}
	return steps
}

// incomplete reports whether a text has fewer than three words and no verb.
func incomplete(text string) bool {
	n := 0
	for w := range strings.FieldsSeq(text) {
		w = strings.ToLower(w)
		if n > 2 || actions[w] != actionUnknown {
			return false
		}
		if !stopWords[w] {
			n++
		}
	}
	return n < 3
}

// boundary returns the length of the boundary between two steps at the beginning of a
// text, and 0 if there is none.
func boundary(text string) int {
	switch c := text[0]; {
	case c == '\n', c == ';':
		return 1
	case c == '.' || c == '!' || c == '?' || c == ',':
		if len(text) > 1 && text[1] == ' ' {
			return 1
		}
	case c == ' ':
		for _, w := range connectives {
			if strings.HasPrefix(text, w) {
				return len(w)
			}
		}
	default:
		for _, w := range wideBoundaries {
			if strings.HasPrefix(text, w) {
				return len(w)
			}
		}
	}
	return 0
}

var (
	connectives    = []string{" and then ", " then ", " and ", " after that ", " afterwards "}
	wideBoundaries = []string{"。", "！", "？", "；", "，", "、"}
)

// joinShortest joins the two neighbours that are shortest together.
func joinShortest(steps []string) []string {
	at := 0
	for i := 1; i+1 < len(steps); i++ {
		if len(steps[i])+len(steps[i+1]) < len(steps[at])+len(steps[at+1]) {
			at = i
		}
	}
	steps[at] += ", " + steps[at+1]
	return slices.Delete(steps, at+1, at+2)
}
