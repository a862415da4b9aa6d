package find

import (
	"math/bits"
	"slices"
	"strings"
)

// View is what one caller may view. It is immutable and takes about one bit an item, so
// that it can be kept for each caller. All statistics are those of the visible items.
type View struct {
	x       *Index
	visible []uint64 // one bit an item
	all     bool     // every item is visible
	n       int
	norms   *norms
	// servers has the servers with a visible item; serverLength is their average length.
	servers      []bool
	serverCount  int
	serverLength float64
}

// norms is the part of BM25F that depends on the length of a field, by field and by
// length.
type norms [fields][256]float32

// View returns the view of a caller. visible is called once for each item, before View
// returns.
func (x *Index) View(visible func(item int) bool) *View {
	v := &View{x: x, visible: make([]uint64, (len(x.facts)+63)/64), servers: make([]bool, len(x.servers))}
	var sums [fields]float64
	for i := range x.facts {
		if !visible(i) {
			continue
		}
		v.visible[i/64] |= 1 << (i % 64)
		v.n++
		d := &x.facts[i]
		v.servers[d.server] = true
		for f, n := range d.lengths {
			sums[f] += long[n]
		}
	}
	v.all = v.n == len(x.facts)
	v.norms = newNorms(sums, v.n)
	for s, seen := range v.servers {
		if seen {
			v.serverCount++
			v.serverLength += x.servers[s].length
		}
	}
	v.serverLength /= float64(max(1, v.serverCount))
	return v
}

func newNorms(sums [fields]float64, n int) *norms {
	var out norms
	for f := range fields {
		average := max(1, sums[f]/float64(max(1, n)))
		for l := range out[f] {
			b := fieldWeights[f].b
			out[f][l] = float32(fieldWeights[f].weight / (1 - b + b*long[l]/average))
		}
	}
	return &out
}

func (v *View) has(item uint32) bool { return v.all || v.visible[item/64]>>(item%64)&1 != 0 }

// Len is the number of visible items.
func (v *View) Len() int { return v.n }

// frequency is the number of visible items that have a term.
func (v *View) frequency(term uint32) int {
	list := v.x.items(term)
	if v.all {
		return len(list)
	}
	n := 0
	for _, p := range list {
		n += int(v.visible[p.item/64] >> (p.item % 64) & 1)
	}
	return n
}

// Nearest returns the items with the n names that are most like a name, best first: "did
// you mean". Names that have little in common with it are left out.
func (v *View) Nearest(name string, n int) []int {
	if len(name) > 200 {
		name = name[:200]
	}
	want := strings.ToLower(name)
	grams := signature(want)
	type near struct {
		item  int
		score float64
	}
	var found []near
	for w, bitsOf := range v.visible {
		for ; bitsOf != 0; bitsOf &= bitsOf - 1 {
			i := w*64 + bits.TrailingZeros64(bitsOf)
			name := v.x.names[i]
			local := localName(name, v.x.servers[v.x.facts[i].server].name)
			score := max(similar(want, grams, strings.ToLower(name)), 0.95*similar(want, grams, strings.ToLower(local)))
			if score >= 0.4 {
				found = append(found, near{i, score})
			}
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		if a.score != b.score {
			if a.score > b.score {
				return -1
			}
			return 1
		}
		return v.x.compare(uint32(a.item), uint32(b.item))
	})
	out := make([]int, 0, max(0, min(n, len(found))))
	for _, f := range found[:max(0, min(n, len(found)))] {
		out = append(out, f.item)
	}
	return out
}

// similar is the Dice coefficient of the character pairs of two words (Adamson and
// Boreham, "The use of an association measure based on character structure", 1974).
func similar(a string, grams uint64, b string) float64 {
	if a == b {
		return 1
	}
	if len(a) < 2 || len(b) < 2 || !likely(grams, signature(b)) {
		return 0
	}
	if len(b) > 200 {
		b = b[:200]
	}
	var taken [200]bool
	shared := 0
	for i := 1; i < len(a); i++ {
		for j := 1; j < len(b); j++ {
			if !taken[j] && a[i] == b[j] && a[i-1] == b[j-1] {
				taken[j] = true
				shared++
				break
			}
		}
	}
	return 2 * float64(shared) / float64(len(a)+len(b)-2)
}
