package find

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// The bounds of a query.
const (
	maxQuery        = 16 << 10 // bytes
	maxWords        = 96       // words of all steps
	maxSteps        = 8
	maxAlternatives = 24 // terms for which one word may stand
	maxSimilar      = 4  // words for which similar ones are looked up
)

// word is one word of a query.
type word struct {
	text         string // as a stem
	weight       float32
	alternatives []alternative
}

// alternative is a term that may stand for a word.
type alternative struct {
	term   uint32
	weight float32
	idf    float32
}

// parsed is a query as the index sees it.
type parsed struct {
	steps  []string // texts
	words  [][]word // by step
	action action
}

// parse splits a query into steps and words.
func (v *View) parse(text string) *parsed {
	if len(text) > maxQuery {
		text = text[:maxQuery]
		for len(text) > 0 && !utf8.ValidString(text[max(0, len(text)-utf8.UTFMax):]) && len(text) > maxQuery-utf8.UTFMax {
			text = text[:len(text)-1]
		}
	}
	p := &parsed{}
	left, similarLeft := maxWords, maxSimilar
	for _, step := range splitSteps(plain(text)) {
		stems, raw := queryWords(step, &left)
		if len(stems) == 0 {
			continue
		}
		if len(p.words) == 0 {
			p.action = queryAction(raw)
		}
		p.steps = append(p.steps, step)
		p.words = append(p.words, v.expand(stems, raw, &similarLeft))
		if left <= 0 {
			break
		}
	}
	return p
}

// queryWords returns the stems of the words of a text, and the words themselves, without
// stop words as long as others are left.
func queryWords(text string, left *int) (found, raw []string) {
	var s splitter
	var stopped, stoppedRaw []string
	s.split(text, func(w []byte) bool {
		if *left <= 0 {
			return false
		}
		word := string(w)
		if stopWords[word] {
			if len(stopped) < 16 {
				stopped, stoppedRaw = append(stopped, stem(word)), append(stoppedRaw, word)
			}
			return true
		}
		*left--
		found, raw = append(found, stem(word)), append(raw, word)
		return true
	})
	if len(found) == 0 {
		return stopped, stoppedRaw
	}
	return found, raw
}

// queryAction returns what the first verb of a query asks for.
func queryAction(raw []string) action {
	for _, w := range raw[:min(len(raw), 4)] {
		if a := actions[w]; a != actionUnknown {
			return a
		}
	}
	return actionUnknown
}

// expand finds the terms that may stand for each word.
func (v *View) expand(stems, raw []string, similarLeft *int) []word {
	t := loadThesaurus()
	var out []word
	at := map[string]int{}
	for i, s := range stems {
		if j, ok := at[s]; ok {
			out[j].weight += 0.3 / out[j].weight // repeated words count, but less each time
			continue
		}
		w := word{text: s, weight: 1}
		if actions[raw[i]] != actionUnknown {
			w.weight = float32(weights.verb)
		}
		if weakWords[raw[i]] {
			w.weight *= float32(weights.weak)
		} else if isDigits(raw[i]) {
			w.weight = float32(weights.number)
		}
		best := map[string]float64{s: 1}
		for n := 1; n <= t.longest && i+n <= len(stems); n++ {
			key := s
			if n > 1 {
				key = strings.Join(stems[i:i+n], " ")
			}
			for _, r := range t.of[key] {
				x := weights.relation[r.relation]
				if r.parts > 1 {
					x *= weights.part
				}
				best[r.term] = max(best[r.term], x)
			}
		}
		if i+1 < len(stems) { // "time zone" is also "timezone"
			joined := stem(raw[i] + raw[i+1])
			best[joined] = max(best[joined], 0.9)
		}
		w.alternatives = v.alternatives(s, best)
		if len(w.alternatives) == 0 && *similarLeft > 0 && len(s) >= 4 {
			*similarLeft--
			w.alternatives = v.spelledAlike(s)
		}
		at[s] = len(out)
		out = append(out, w)
	}
	return out
}

// alternatives returns the terms that a visible item has, heaviest first.
func (v *View) alternatives(s string, best map[string]float64) []alternative {
	var out []alternative
	var own float32
	if n, ok := v.x.words.number[s]; ok {
		if df := v.frequency(n); df > 0 {
			own = idf(v.n, df)
		}
	}
	for term, weight := range best {
		n, ok := v.x.words.number[term]
		if !ok {
			continue
		}
		df := v.frequency(n)
		if df == 0 {
			continue
		}
		x := idf(v.n, df)
		if own > 0 && x > own {
			x = float32(weights.rarer)*x + float32(1-weights.rarer)*own
		}
		out = append(out, alternative{n, float32(weight), x})
	}
	return v.heaviest(out)
}

func (v *View) heaviest(list []alternative) []alternative {
	slices.SortFunc(list, func(a, b alternative) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), strings.Compare(v.x.words.terms[a.term], v.x.words.terms[b.term]))
	})
	return list[:min(len(list), maxAlternatives)]
}

// spelledAlike returns the visible terms that are spelled most like a word.
func (v *View) spelledAlike(s string) []alternative {
	grams := signature(s)
	var out []alternative
	for n, g := range v.x.words.grams {
		if !likely(grams, g) {
			continue
		}
		alike := similar(s, grams, v.x.words.terms[n])
		if alike < 0.6 {
			continue
		}
		if df := v.frequency(uint32(n)); df > 0 {
			out = append(out, alternative{uint32(n), float32(alike * weights.similar), idf(v.n, df)})
		}
	}
	return v.heaviest(out)[:min(len(out), 4)]
}
