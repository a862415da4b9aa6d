package find

import "math"

// aspect is a step of the query while its hits are put in order.
type aspect struct {
	scores []float32 // by item
	top    float32   // the best of them
	open   float32   // how important the step is, less what the hits so far do for it
}

// diversify moves items to the front that serve steps which the items before them do
// not. It is xQuAD (Santos, Macdonald and Ounis, "Exploiting query reformulations for
// web search result diversification", 2010) with the steps as the aspects of the query.
func (v *View) diversify(s *scratch, steps int, found []uint32, limit int) {
	aspects := s.aspects(steps, found)
	top, lambda := s.total[found[0]], float32(weights.step)
	for at := range min(limit, len(found)) {
		best, bestScore := at, float32(math.Inf(-1))
		for j, d := range found[at:] {
			score := (1 - lambda) * s.total[d] / top
			for i := range aspects {
				score += lambda * aspects[i].open * aspects[i].share(d)
			}
			if v.hasTwin(found[:at], d) {
				score *= float32(weights.twin)
			}
			if score > bestScore {
				best, bestScore = at+j, score
			}
		}
		d := found[best]
		copy(found[at+1:best+1], found[at:best])
		found[at] = d
		for i := range aspects {
			aspects[i].open *= 1 - float32(weights.served)*aspects[i].share(d)
		}
	}
}

// aspects returns the steps that some item serves. A step is important if it has many
// words that say something, and if some item has most of them.
func (s *scratch) aspects(steps int, found []uint32) []aspect {
	var out []aspect
	var sum float32
	for i, scores := range s.steps[:steps] {
		a := aspect{scores: scores}
		for _, d := range found {
			a.top = max(a.top, scores[d])
		}
		if a.top > 0 {
			a.open = float32(math.Sqrt(float64(s.most[i]))) * a.top / s.most[i]
			sum += a.open
			out = append(out, a)
		}
	}
	for i := range out {
		out[i].open /= sum
	}
	return out
}

// share is how well an item serves the step, against the best one.
func (a *aspect) share(item uint32) float32 { return a.scores[item] / a.top }

// hasTwin reports whether a list has a tool of the same name of another server.
func (v *View) hasTwin(list []uint32, item uint32) bool {
	f := &v.x.facts[item]
	for _, e := range list {
		if o := &v.x.facts[e]; o.twins == f.twins && o.server != f.server {
			return true
		}
	}
	return false
}
