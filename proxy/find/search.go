package find

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync"
)

// scratch is the memory of one search. Slices that are not said otherwise are by item.
type scratch struct {
	steps    [][]float32 // the score for each step
	best     []float32   // the score for the word being looked up
	bestName []float32   // the weight with which the word is in the name
	touched  []uint32    // the items that have it
	name     []float32   // the weights of all words that are in the name
	total    []float32
	server   []float32 // by server
	most     []float32 // the score of an item that has all words, by step
	found    []uint32
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// cleared returns a zeroed slice of n numbers, in the memory of list if it is large enough.
func cleared(list []float32, n int) []float32 {
	if cap(list) < n {
		return make([]float32, n)
	}
	list = list[:n]
	clear(list)
	return list
}

// idf is the inverse document frequency of Robertson and Sparck Jones ("Relevance
// weighting of search terms", 1976), with one added inside of the logarithm, so that it
// is never negative.
func idf(n, df int) float32 {
	return float32(math.Log(1 + (float64(n-df)+0.5)/(float64(df)+0.5)))
}

// Search ranks the visible items for a query.
func (v *View) Search(q Query) Result {
	p := v.parse(q.Text)
	if len(p.words) == 0 || v.n == 0 {
		return Result{}
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	n := len(v.x.facts)
	for len(s.steps) < len(p.words) {
		s.steps = append(s.steps, nil)
	}
	s.best, s.bestName, s.total, s.name = cleared(s.best, n), cleared(s.bestName, n), cleared(s.total, n), cleared(s.name, n)
	s.most = cleared(s.most, len(p.words))
	for i, words := range p.words {
		s.steps[i] = cleared(s.steps[i], n)
		s.most[i] = v.step(s, words, s.steps[i])
		if p.actions[i] == actionRead {
			v.preferReading(s.steps[i])
		}
	}
	r := v.merge(s, p, q)
	if len(p.steps) > 1 {
		r.Steps = p.steps
	}
	return r
}

// step adds the scores of one step. It returns the score of an item that has all of its
// words.
func (v *View) step(s *scratch, words []word, scores []float32) (most float32) {
	var heaviest float32
	for i := range words {
		x := words[i].weight * v.heaviestIDF(&words[i])
		most += x
		heaviest = max(heaviest, x)
	}
	least := heaviest * float32(weights.least)
	for i := range words {
		w := &words[i]
		v.lookUp(s, w, least)
		for _, d := range s.touched {
			scores[d] += w.weight * s.best[d]
			s.name[d] += w.weight * s.bestName[d]
			s.best[d], s.bestName[d] = 0, 0
		}
	}
	v.addServers(s, words, scores)
	return most
}

func (v *View) heaviestIDF(w *word) float32 {
	most := idf(v.n, 0) / 2 // an unknown word matters as well
	for i, a := range w.alternatives {
		if i == 0 || a.weight*a.idf > most {
			most = a.weight * a.idf
		}
	}
	return most
}

// preferReading raises the scores of items that read, and lowers those of items that write.
func (v *View) preferReading(scores []float32) {
	reads, writes := float32(1+weights.reads), float32(1-weights.writes)
	for i, x := range scores {
		if x == 0 {
			continue
		}
		switch f := &v.x.facts[i]; {
		case f.readOnly || f.action == actionRead:
			scores[i] *= reads
		case f.action == actionWrite || f.action == actionDelete:
			scores[i] *= writes
		}
	}
}

// lookUp leaves in s.best the score of each item for one word, and in s.touched which
// they are. It is BM25F (Robertson, Zaragoza and Taylor, "Simple BM25 extension to
// multiple weighted fields", 2004). A word and the words that may stand for it count
// once, with the best of them. Those that would add less than least are left out: most of
// them are common, so that they take most of the time (Turtle and Flood, "Query
// evaluation: strategies and optimizations", 1995).
func (v *View) lookUp(s *scratch, w *word, least float32) {
	s.touched = s.touched[:0]
	k1 := float32(weights.k1)
	for _, a := range w.alternatives {
		x := a.weight * a.idf
		if w.weight*x < least {
			continue
		}
		for _, p := range v.x.items(a.term) {
			if !v.has(p.item) {
				continue
			}
			lengths := &v.x.facts[p.item].lengths
			var tf float32
			for c := p.counts; c != 0; {
				f := bits.TrailingZeros32(uint32(c)) / 4
				tf += float32(c>>(4*f)&15) * v.norms[f][lengths[f]]
				c &^= 15 << (4 * f)
			}
			if score := x * tf / (k1 + tf); score > s.best[p.item] {
				if s.best[p.item] == 0 {
					s.touched = append(s.touched, p.item)
				}
				s.best[p.item] = score
			}
			if p.counts.of(fieldName) > 0 {
				s.bestName[p.item] = max(s.bestName[p.item], a.weight)
			}
		}
	}
}

// addServers adds the score of the server to its items: BM25 (Robertson and Walker,
// "Some simple effective approximations to the 2-Poisson model", 1994) over the names and
// instructions of the servers.
func (v *View) addServers(s *scratch, words []word, scores []float32) {
	s.server = cleared(s.server, len(v.x.servers))
	found := false
	for i := range words {
		n, ok := v.x.words.find(words[i].text)
		if !ok {
			continue
		}
		v.eachServer(n, words[i].weight, func(server uint16, score float32) {
			s.server[server] += score
			found = true
		})
	}
	if !found {
		return
	}
	for i := range scores {
		if x := s.server[v.x.facts[i].server]; x != 0 && v.has(uint32(i)) {
			scores[i] += float32(weights.server) * x
		}
	}
}

// eachServer calls yield with each visible server that has a term, and what the term adds
// to its score.
func (v *View) eachServer(term uint32, weight float32, yield func(server uint16, score float32)) {
	list := v.x.serverTerms(term)
	df := 0
	for i := range list {
		if v.servers[list[i].server] {
			df++
		}
	}
	weight *= idf(v.serverCount, df)
	for i := range list {
		if !v.servers[list[i].server] {
			continue
		}
		tf, length := float64(list[i].weight), v.x.servers[list[i].server].length
		norm := weights.serverK1 * (1 - weights.serverB + weights.serverB*length/max(1, v.serverLength))
		yield(list[i].server, weight*float32(tf/(norm+tf)))
	}
}

// merge makes the result of the scores of the steps.
func (v *View) merge(s *scratch, p *parsed, q Query) Result {
	limit := q.Limit
	if limit <= 0 {
		limit = 8
	}
	limit = min(limit, MaxHits)
	found, matches := v.relevant(s, p, &q)
	if len(found) > 1 {
		v.diversify(s, len(p.words), found, limit)
	}
	r := Result{More: max(0, matches-limit)}
	for _, d := range found[:min(len(found), limit)] {
		h := Hit{Item: int(d), Score: float64(s.total[d])}
		if q.Explain {
			h.Reasons = boosted(v.reasons(p, d), &q, h)
		}
		r.Hits = append(r.Hits, h)
	}
	return r
}

// deep is how many of the best items are put into their final order.
const deep = 200

// relevant returns the best items, best first, with their scores in s.total, and the
// number of all that match.
func (v *View) relevant(s *scratch, p *parsed, q *Query) (found []uint32, matches int) {
	v.score(s, len(p.words), q)
	var top float32
	for _, d := range s.found {
		top = max(top, s.total[d])
	}
	v.addTools(s, top)
	s.best = s.best[:0]
	floor := top * float32(weights.floor)
	for _, d := range s.found {
		if x := s.total[d]; x >= floor {
			s.best = append(s.best, x)
		}
	}
	matches = len(s.best)
	floor = max(floor, largest(s.best, deep))
	found = slices.DeleteFunc(s.found, func(d uint32) bool { return s.total[d] < floor })
	slices.SortFunc(found, func(a, b uint32) int {
		if s.total[a] != s.total[b] {
			return cmp.Compare(s.total[b], s.total[a])
		}
		return v.x.compare(a, b)
	})
	return found[:min(len(found), deep)], matches
}

// largest returns the n-th largest of some numbers, or 0 if there are fewer. It reorders
// them (Hoare, "Algorithm 65: Find", 1961).
func largest(list []float32, n int) float32 {
	if n > len(list) {
		return 0
	}
	for from, end := 0, len(list)-1; ; {
		pivot := list[(from+end)/2]
		i, j := from, end
		for i <= j {
			for list[i] > pivot {
				i++
			}
			for list[j] < pivot {
				j--
			}
			if i <= j {
				list[i], list[j] = list[j], list[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case n-1 <= j:
			end = j
		case n-1 >= i:
			from = i
		default:
			return pivot
		}
	}
}

// score fills s.total and s.found.
func (v *View) score(s *scratch, n int, q *Query) {
	steps := s.steps[:n]
	for _, scores := range steps {
		for i, x := range scores {
			s.total[i] += x
		}
	}
	var most float32
	for _, m := range s.most {
		most += m
	}
	s.found = s.found[:0]
	for i, x := range s.total {
		if x == 0 && q.Boost == nil || !v.wanted(i, q) {
			continue
		}
		if x != 0 {
			s.total[i] = adjust(x, s.name[i], v.x.facts[i].lengths[fieldName]) / most
		}
		s.found = append(s.found, uint32(i))
	}
	if q.Boost != nil {
		v.boost(s, q)
	}
}

// boost adds to the scores of s.found what is known besides words, and leaves those out
// that nothing speaks for. Of an item of which nothing is known the words have to speak
// for both: it gets as much of the largest boost as it has of the best score.
func (v *View) boost(s *scratch, q *Query) {
	boosts := cleared(s.best, len(s.total))
	var most, best float32
	for _, d := range s.found {
		x := float32(q.Boost(int(d)))
		boosts[d] = x
		if x > most { // not NaN
			most = x
		}
		best = max(best, s.total[d])
	}
	share := float32(0)
	if best > 0 {
		share = most / best
	}
	s.found = slices.DeleteFunc(s.found, func(d uint32) bool {
		if x := boosts[d]; x == x {
			s.total[d] += x
		} else {
			s.total[d] *= 1 + share
		}
		return s.total[d] <= 0
	})
	clear(boosts)
}

// adjust raises the score of an item for the part of its name that matches.
func adjust(score, name float32, length uint8) float32 {
	if length > 0 {
		score *= 1 + float32(weights.nameCover)*min(1, name/float32(length))
	}
	return score
}

// addTools adds to each score a part for how well the tools of the same server match:
// servers are ranked by their items (as Si and Callan, "Relevant document distribution
// estimation method for resource selection", 2003, rank collections), and good ones lift
// theirs.
func (v *View) addTools(s *scratch, top float32) {
	if top <= 0 {
		return
	}
	s.server = cleared(s.server, len(v.x.servers))
	var best float32
	for _, d := range s.found {
		x := max(0, s.total[d]/top)
		server := v.x.facts[d].server
		s.server[server] += x * x * x
		best = max(best, s.server[server])
	}
	for _, d := range s.found {
		s.total[d] *= 1 + float32(weights.serverTools)*s.server[v.x.facts[d].server]/best
	}
}

// wanted reports whether an item is visible, and of the server and the kinds of a query.
func (v *View) wanted(item int, q *Query) bool {
	f := &v.x.facts[item]
	return v.has(uint32(item)) && (q.Server == "" || v.x.servers[f.server].name == q.Server) &&
		(len(q.Kinds) == 0 || slices.Contains(q.Kinds, f.kind))
}
