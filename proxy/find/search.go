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
	for i := range words {
		w := &words[i]
		most += w.weight * v.heaviestIDF(w)
		v.lookUp(s, w)
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

// lookUp leaves in s.best the score of each item for one word, and in s.touched which
// they are. It is BM25F (Robertson, Zaragoza and Taylor, "Simple BM25 extension to
// multiple weighted fields", 2004). A word and the words that may stand for it count
// once, with the best of them.
func (v *View) lookUp(s *scratch, w *word) {
	s.touched = s.touched[:0]
	k1 := float32(weights.k1)
	for _, a := range w.alternatives {
		x := a.weight * a.idf
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
		n, ok := v.x.words.number[words[i].text]
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
			h.Reasons = v.reasons(p, d)
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
	v.score(s, p, q)
	found = s.found
	var top float32
	for _, d := range found {
		top = max(top, s.total[d])
	}
	v.addTools(s, top)
	floor := top * float32(weights.floor)
	kept := found[:0]
	for _, d := range found {
		if s.total[d] >= floor {
			kept = append(kept, d)
		}
	}
	first := func(a, b uint32) int {
		if s.total[a] != s.total[b] {
			return cmp.Compare(s.total[b], s.total[a])
		}
		return v.x.compare(a, b)
	}
	matches = len(kept)
	kept = smallest(kept, deep, first)
	slices.SortFunc(kept, first)
	return kept, matches
}

// score fills s.total and s.found.
func (v *View) score(s *scratch, p *parsed, q *Query) {
	steps := s.steps[:len(p.words)]
	var most float32
	for _, m := range s.most {
		most += m
	}
	s.found = s.found[:0]
	for i := range v.x.facts {
		var sum float32
		for _, scores := range steps {
			sum += scores[i]
		}
		if sum == 0 || !v.wanted(i, q) {
			continue
		}
		it := &v.x.facts[i]
		if n := float32(it.lengths[fieldName]); n > 0 {
			sum *= 1 + float32(weights.nameCover)*min(1, s.name[i]/n)
		}
		if p.action == actionRead {
			if it.readOnly || it.action == actionRead {
				sum *= float32(1 + weights.action)
			} else if it.action == actionWrite || it.action == actionDelete {
				sum *= float32(1 - weights.actionAgainst)
			}
		}
		s.total[i] = sum / most
		if q.Boost != nil {
			s.total[i] += float32(q.Boost(i))
		}
		s.found = append(s.found, uint32(i))
	}
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

// smallest moves the n items that come first to the front of a list and returns them, in
// no order (Hoare, "Algorithm 65: Find", 1961).
func smallest(list []uint32, n int, compare func(a, b uint32) int) []uint32 {
	from, end := 0, len(list)-1
	for n < len(list) && from < end {
		pivot := list[(from+end)/2]
		i, j := from, end
		for i <= j {
			for compare(list[i], pivot) < 0 {
				i++
			}
			for compare(list[j], pivot) > 0 {
				j--
			}
			if i <= j {
				list[i], list[j] = list[j], list[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case n <= j:
			end = j
		case n >= i:
			from = i
		default:
			from = end
		}
	}
	return list[:min(n, len(list))]
}

// diversify moves items to the front that serve steps which the items before them do
// not. It is xQuAD (Santos, Macdonald and Ounis, "Exploiting query reformulations for
// web search result diversification", 2010) with the steps as the aspects of the query.
func (v *View) diversify(s *scratch, steps int, found []uint32, limit int) {
	candidates := found
	var mass float32
	open := make([]float32, steps) // how much of a step is not served yet
	tops := make([]float32, steps)
	for i := range steps {
		mass += float32(math.Pow(float64(s.most[i]), weights.mass))
		for _, d := range candidates {
			tops[i] = max(tops[i], s.steps[i][d])
		}
	}
	for i := range steps {
		open[i] = float32(math.Pow(float64(s.most[i]), weights.mass)) / mass
	}
	top := s.total[candidates[0]]
	lambda := float32(weights.step)
	for at := range min(limit, len(candidates)) {
		best, bestScore := at, float32(-1)
		for j := at; j < len(candidates); j++ {
			d := candidates[j]
			score := (1 - lambda) * s.total[d] / top
			for i := range steps {
				if tops[i] > 0 {
					score += lambda * open[i] * s.steps[i][d] / tops[i]
				}
			}
			for _, e := range candidates[:at] {
				if v.x.facts[e].twins == v.x.facts[d].twins && v.x.facts[e].server != v.x.facts[d].server {
					score *= float32(weights.twin)
					break
				}
			}
			if score > bestScore {
				best, bestScore = j, score
			}
		}
		d := candidates[best]
		copy(candidates[at+1:best+1], candidates[at:best])
		candidates[at] = d
		for i := range steps {
			if tops[i] > 0 {
				open[i] *= 1 - float32(weights.served)*s.steps[i][d]/tops[i]
			}
		}
	}
}

func (v *View) wanted(d int, q *Query) bool {
	it := &v.x.facts[d]
	return v.has(uint32(d)) && (q.Server == "" || v.x.servers[it.server].name == q.Server) && (len(q.Kinds) == 0 || slices.Contains(q.Kinds, it.kind))
}
