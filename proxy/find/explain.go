package find

import (
	"cmp"
	"slices"
)

// maxReasons is how many reasons a hit has at most.
const maxReasons = 8

// fieldBoost is the field of what is no match of a word.
const fieldBoost = "boost"

// reasons says why an item matches: for each word of the query the best match, in the
// field that made most of it.
func (v *View) reasons(p *parsed, item uint32) []Reason {
	var out []Reason
	sum := 0.0
	for _, words := range p.words {
		for i := range words {
			r, ok := v.reason(&words[i], item)
			if !ok {
				continue
			}
			sum += r.Share
			if j := slices.IndexFunc(out, func(o Reason) bool { return o.Field == r.Field && o.Word == r.Word && o.Match == r.Match }); j >= 0 {
				out[j].Share += r.Share
				continue
			}
			out = append(out, r)
		}
	}
	for i := range out {
		out[i].Share /= sum
	}
	slices.SortStableFunc(out, func(a, b Reason) int { return cmp.Compare(b.Share, a.Share) })
	return out[:min(len(out), maxReasons)]
}

// boosted adds what the boost of a query did for a hit to the reasons of its words.
func boosted(words []Reason, q *Query, h Hit) []Reason {
	if q.Boost == nil || h.Score <= 0 {
		return words
	}
	x := q.Boost(h.Item)
	if !(x > 0) { // also where nothing is known
		return words
	}
	share := min(1, x/h.Score)
	if len(words) == 0 {
		share = 1
	}
	for i := range words {
		words[i].Share *= 1 - share
	}
	words = append(words, Reason{Field: fieldBoost, Share: share})
	slices.SortStableFunc(words, func(a, b Reason) int { return cmp.Compare(b.Share, a.Share) })
	return words
}

// reason is the best match of a word in an item or in the name of its server. Share is
// the score.
func (v *View) reason(w *word, item uint32) (Reason, bool) {
	d := &v.x.facts[item]
	var r Reason
	for _, a := range w.alternatives {
		c := v.x.countsOf(item, a.term)
		if c == 0 {
			continue
		}
		tf, field := v.frequencies(d, c)
		if score := float64(w.weight * a.weight * a.idf * tf / (float32(weights.k1) + tf)); score > r.Share {
			r = Reason{Field: fieldNames[field], Word: w.text, Match: v.x.words.terms[a.term], Share: score}
		}
	}
	if n, ok := v.x.words.find(w.text); ok {
		v.eachServer(n, w.weight, func(server uint16, score float32) {
			if x := float64(score) * weights.server; server == d.server && x > r.Share {
				r = Reason{Field: "server", Word: w.text, Match: w.text, Share: x}
			}
		})
	}
	return r, r.Share > 0
}

// frequencies returns the weighted frequency of BM25F, and the field that made most of
// it.
func (v *View) frequencies(d *facts, c counts) (tf float32, most field) {
	var best float32
	for f := range fields {
		if n := c.of(f); n != 0 {
			x := float32(n) * v.norms[f][d.lengths[f]]
			tf += x
			if x > best {
				best, most = x, f
			}
		}
	}
	return tf, most
}
