package find

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
)

// scratch is the memory of one search.
type scratch struct {
	steps   [][]float32 // the score of each document, by step
	best    []float32   // the score of the word being looked up
	touched []uint32
	server  []float32
	total   []float32
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
	n := len(v.x.items)
	for len(s.steps) < len(p.words) {
		s.steps = append(s.steps, nil)
	}
	s.best, s.total = cleared(s.best, n), cleared(s.total, n)
	for i, words := range p.words {
		s.steps[i] = cleared(s.steps[i], n)
		v.step(s, words, s.steps[i])
	}
	r := v.merge(s, p, q)
	if len(p.steps) > 1 {
		r.Steps = p.steps
	}
	return r
}

// step adds the scores of one step, from 0 to about 1.
func (v *View) step(s *scratch, words []word, scores []float32) {
	var most float32 // the score of an item that has all words
	for i := range words {
		w := &words[i]
		most += w.weight * v.heaviestIDF(w)
		v.lookUp(s, w)
		for _, d := range s.touched {
			scores[d] += w.weight * s.best[d]
			s.best[d] = 0
		}
	}
	v.addServers(s, words, scores)
	if most > 0 {
		for d := range scores {
			scores[d] /= most
		}
	}
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

// lookUp leaves in s.best the score of each document for one word, and in s.touched
// which they are. It is BM25F (Robertson, Zaragoza and Taylor, "Simple BM25 extension to
// multiple weighted fields", 2004). A word and the words that may stand for it count
// once, with the best of them.
func (v *View) lookUp(s *scratch, w *word) {
	s.touched = s.touched[:0]
	k1 := float32(weights.k1)
	for _, a := range w.alternatives {
		x := a.weight * a.idf
		for _, p := range v.x.documents(a.term) {
			if !v.has(p.doc) {
				continue
			}
			l := &v.x.items[p.doc].lengths
			var tf float32
			for f, c := 0, p.counts; c != 0; f, c = f+1, c>>4 {
				if n := c & 15; n != 0 {
					tf += float32(n) * v.norms[f][l[f]]
				}
			}
			score := x * tf / (k1 + tf)
			if score > s.best[p.doc] {
				if s.best[p.doc] == 0 {
					s.touched = append(s.touched, p.doc)
				}
				s.best[p.doc] = score
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
		for j := range v.x.servers {
			if !v.servers[j] {
				continue
			}
			if x := v.serverShare(&v.x.servers[j], n, words[i].weight); x > 0 {
				s.server[j] += x
				found = true
			}
		}
	}
	if !found {
		return
	}
	for d := range scores {
		if v.has(uint32(d)) {
			scores[d] += float32(weights.server) * s.server[v.x.items[d].server]
		}
	}
}

// serverShare is what a term adds to the score of a server.
func (v *View) serverShare(s *server, term uint32, weight float32) float32 {
	tf := float64(s.weightOf(term))
	if tf == 0 {
		return 0
	}
	df := 0
	for j := range v.x.servers {
		if v.servers[j] && v.x.servers[j].weightOf(term) > 0 {
			df++
		}
	}
	norm := weights.serverK1 * (1 - weights.serverB + weights.serverB*s.length/max(1, v.serverLength))
	return weight * idf(v.serverCount, df) * float32(tf/(norm+tf))
}

func (s *server) weightOf(term uint32) float32 {
	i, ok := slices.BinarySearchFunc(s.terms, term, func(w weighted, t uint32) int { return cmp.Compare(w.term, t) })
	if !ok {
		return 0
	}
	return s.terms[i].weight
}

// merge makes the result of the scores of the steps.
func (v *View) merge(s *scratch, p *parsed, q Query) Result {
	limit := q.Limit
	if limit <= 0 {
		limit = 8
	}
	limit = min(limit, MaxHits)
	steps := s.steps[:len(p.words)]
	var found []uint32
	var top float32
	for d := range v.x.items {
		if !v.has(uint32(d)) || !v.wanted(d, &q) {
			continue
		}
		var sum, best float32
		for _, scores := range steps {
			sum += scores[d]
			best = max(best, scores[d])
		}
		if sum == 0 {
			continue
		}
		total := best
		if len(steps) > 1 {
			total = float32(weights.step)*best + float32(1-weights.step)*sum
		}
		it := &v.x.items[d]
		if p.action == actionRead {
			if it.readOnly || it.action == actionRead {
				total += float32(weights.action) * best
			} else if it.action == actionWrite || it.action == actionDelete {
				total -= float32(weights.actionAgainst) * best
			}
		}
		if q.Boost != nil {
			total += float32(q.Boost(d))
		}
		s.total[d] = total
		top = max(top, total)
		found = append(found, uint32(d))
	}
	found = slices.DeleteFunc(found, func(d uint32) bool { return s.total[d] < top*float32(weights.floor) })
	slices.SortFunc(found, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(s.total[b], s.total[a]), v.x.compare(a, b))
	})
	r := Result{More: max(0, len(found)-limit)}
	for _, d := range found[:min(len(found), limit)] {
		h := Hit{Item: int(d), Score: float64(s.total[d])}
		if q.Explain {
			h.Reasons = v.reasons(p, d)
		}
		r.Hits = append(r.Hits, h)
	}
	return r
}

func (v *View) wanted(d int, q *Query) bool {
	it := &v.x.items[d]
	return (q.Server == "" || v.x.servers[it.server].name == q.Server) && (len(q.Kinds) == 0 || slices.Contains(q.Kinds, it.kind))
}

// compare orders items whose scores are equal.
func (x *Index) compare(a, b uint32) int {
	i, j := &x.items[a], &x.items[b]
	return cmp.Or(strings.Compare(i.name, j.name), strings.Compare(x.servers[i.server].name, x.servers[j.server].name), cmp.Compare(i.kind, j.kind), cmp.Compare(a, b))
}
