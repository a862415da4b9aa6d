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
	steps   []string // texts
	words   [][]word // by step
	actions []action // what the verb of each step asks for
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
	for _, step := range withFiles(splitSteps(text)) {
		list := tokens(plain(step), &left)
		words := v.expand(list, &similarLeft)
		if len(words) == 0 {
			continue
		}
		p.actions = append(p.actions, queryAction(list))
		p.steps = append(p.steps, step)
		p.words = append(p.words, words)
		if left <= 0 {
			break
		}
	}
	return p
}

// token is a word of the text of a query.
type token struct {
	raw, stem string
	stop      bool
}

// tokens returns the words of a text. left is how many words that are no stop words may
// still be read.
func tokens(text string, left *int) []token {
	var s splitter
	var out []token
	stops := 0
	s.split(text, func(w []byte) bool {
		t := token{raw: string(w)}
		t.stem, t.stop = stem(t.raw), stopWords[t.raw]
		if t.stop {
			stops++
		} else {
			*left--
		}
		out = append(out, t)
		return *left > 0 && stops < maxWords
	})
	return out
}

// queryAction returns what the first verb of a query asks for.
func queryAction(list []token) action {
	left := 4
	for i := range list {
		if list[i].stop {
			continue
		}
		if a := actions[list[i].raw]; a != actionUnknown {
			return a
		}
		if left--; left == 0 {
			break
		}
	}
	return actionUnknown
}

// expand finds the terms that may stand for each word. Stop words count if there are no
// others.
func (v *View) expand(list []token, similarLeft *int) []word {
	t := loadThesaurus()
	e := expansion{v: v, t: t, list: list, at: map[string]int{}, similarLeft: similarLeft}
	for i := 0; i < len(list); {
		if n := e.idiom(i); n > 0 {
			i += n
			continue
		}
		if !list[i].stop {
			e.word(i)
		}
		i++
	}
	if len(e.out) == 0 {
		for i := range min(len(list), 16) {
			e.word(i)
		}
	}
	return e.out
}

// expansion is the list of words of a step while it is made.
type expansion struct {
	v           *View
	t           *thesaurus
	list        []token
	out         []word
	at          map[string]int // where a stem is in out
	similarLeft *int
	key         []byte
}

// phrase returns the stems of n words, joined by spaces. It is valid until the next call.
func (e *expansion) phrase(i, n int) []byte {
	e.key = append(e.key[:0], e.list[i].stem...)
	for _, t := range e.list[i+1 : i+n] {
		e.key = append(append(e.key, ' '), t.stem...)
	}
	return e.key
}

// idiom adds the words that stand for an idiom, and returns how many words that has.
func (e *expansion) idiom(i int) int {
	for n := min(e.t.longest, len(e.list)-i); n > 1; n-- {
		related, ok := e.t.idioms[string(e.phrase(i, n))]
		if !ok {
			continue
		}
		best := map[string]float64{}
		for _, r := range related {
			best[r.term] = weights.relation[relationSame]
		}
		name := string(e.key)
		e.out = append(e.out, word{text: name, weight: 0.7, alternatives: e.v.alternatives(name, best)})
		return n
	}
	return 0
}

// word adds a word with those that may stand for it.
func (e *expansion) word(i int) {
	s, raw := e.list[i].stem, e.list[i].raw
	if j, ok := e.at[s]; ok {
		e.out[j].weight += 0.3 / e.out[j].weight // repeated words count, but less each time
		return
	}
	w := word{text: s, weight: 1}
	if actions[raw] != actionUnknown {
		w.weight = float32(weights.verb)
	}
	if weakWords[raw] {
		w.weight *= float32(weights.weak)
	} else if isDigits(raw) {
		w.weight = float32(weights.number)
	} else if formats[raw] {
		w.weight = float32(weights.format)
	}
	best := map[string]float64{s: 1}
	for n := 1; n <= min(e.t.longest, len(e.list)-i); n++ {
		for _, r := range e.t.of[string(e.phrase(i, n))] {
			x := weights.relation[r.relation]
			if r.parts > 1 {
				x *= weights.part
			}
			best[r.term] = max(best[r.term], x)
		}
	}
	if i+1 < len(e.list) { // "time zone" is also "timezone"
		joined := stem(raw + e.list[i+1].raw)
		best[joined] = max(best[joined], 0.9)
	}
	w.alternatives = e.v.alternatives(s, best)
	if len(w.alternatives) == 0 && *e.similarLeft > 0 && len(s) >= 4 {
		*e.similarLeft--
		w.alternatives = e.v.spelledAlike(s)
	}
	e.at[s] = len(e.out)
	e.out = append(e.out, w)
}

// alternatives returns the terms that a visible item has, heaviest first.
func (v *View) alternatives(s string, best map[string]float64) []alternative {
	var out []alternative
	var own float32
	if n, ok := v.x.words.find(s); ok {
		if df := v.frequency(n); df > 0 {
			own = idf(v.n, df)
		}
	}
	for term, weight := range best {
		n, ok := v.x.words.find(term)
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
