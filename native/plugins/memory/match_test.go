package memory

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestBest(t *testing.T) {
	texts := []string{
		"The code of the garage door is 4711.",
		"The tests of the parser need `make proto` first",
		"the the the",
		"Straße, Größe und ÄRGER: naïve café",
	}
	for query, want := range map[string][]int{
		"garage":             {0},
		"GARAGE Door":        {0},
		"the door":           {0, 1, 2}, // the rare word decides
		"make proto, please": {1},
		"straße größe":       {3},
		"ärger":              {3},
		"nothing":            nil,
		"":                   nil,
		"?!, ...":            nil,
		"gar":                nil, // a part of a word is another word
	} {
		var got []int
		for _, s := range newMatch(query).best(texts, 0) {
			got = append(got, s.index)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
	for threshold, want := range map[float64]int{0: 3, 0.5: 3, 0.51: 1, 1: 1} {
		if got := newMatch("the door").best(texts, threshold); len(got) != want {
			t.Errorf("from %v: %v", threshold, got)
		}
	}
	if got := newMatch(strings.Repeat("a b c d ", 1000)).words; len(got) != 4 {
		t.Errorf("%d words", len(got))
	}
}

// For any texts and query: a score is the share of the words of the query in the text, a
// threshold only leaves out, and a text that has all words is never left out.
func TestBestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func(n int) string {
		var words []string
		for range n {
			words = append(words, string(rune('a'+r.IntN(8))))
		}
		return strings.Join(words, " ")
	}
	for range 2000 {
		query, texts := some(r.IntN(5)), make([]string, r.IntN(6))
		for i := range texts {
			texts[i] = some(r.IntN(6))
		}
		m := newMatch(query)
		all := m.best(texts, 0)
		for i, text := range texts {
			has := 0
			for _, word := range m.words {
				if slices.Contains(strings.Fields(text), word) {
					has++
				}
			}
			at := slices.IndexFunc(all, func(s scored) bool { return s.index == i })
			if (at >= 0) != (has > 0) || at >= 0 && all[at].score != float64(has)/float64(len(m.words)) {
				t.Fatalf("%q in %q: %v", query, text, all)
			}
		}
		threshold := r.Float64()
		want := slices.DeleteFunc(slices.Clone(all), func(s scored) bool { return s.score < threshold })
		if got := m.best(texts, threshold); !slices.Equal(got, want) {
			t.Fatalf("%q in %q from %v: %v, want %v", query, texts, threshold, got, want)
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("The door", "the DOOR is open")
	f.Add("\xff\xfe", "\xff")
	f.Add("İ ǅ", "i̇ ǆ")
	f.Fuzz(func(t *testing.T, query, text string) {
		m := newMatch(query)
		if len(m.words) > maxWords {
			t.Fatalf("%d words", len(m.words))
		}
		for _, s := range m.best([]string{text, query}, 0) {
			if s.score <= 0 || s.score > 1 || s.index == 1 && len(m.words) < maxWords && s.score != 1 {
				t.Errorf("%q in %q: %+v", query, text, s)
			}
		}
	})
}
