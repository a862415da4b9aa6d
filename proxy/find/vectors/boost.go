package vectors

import (
	"math"
	"sync"

	"github.com/toolgate/toolgate/proxy/find"
)

// How much vectors count beside words, whose scores are from 0 to about 1.
const (
	weight = 1.5
	// floor is how much closer to the query than the mean an item has to be, as a part of
	// the way from the mean to the query.
	floor = 0.1
	// few is by how many items with the cosine 0 the mean is held down, because a few
	// items do not tell what is usual.
	few = 4
)

// closest is how many items are compared exactly. The signs choose them.
const closest = 512

// sampled is about how many items the mean is of, where there are more than closest.
const sampled = 256

// distances is the memory of one comparison, by item.
var distances = sync.Pool{New: func() any { return new([]uint16) }}

// far marks an item that is not compared.
const far = math.MaxUint16

// boosts returns what is added to the scores of visible items for a query, nil for
// nothing, and NaN for items without a vector. The cosines of unrelated texts differ between models, so that only the
// distance from the mean of the visible items counts. The result depends on the visible
// items alone, and not on their order: sums are of whole numbers.
func boosts(vectors []*vector, view *find.View, q *vector) func(item int) float64 {
	memory := distances.Get().(*[]uint16)
	defer distances.Put(memory)
	if cap(*memory) < len(vectors) {
		*memory = make([]uint16, len(vectors))
	}
	all, cosines := (*memory)[:len(vectors)], make([]float32, len(vectors))
	var count [maxDimensions + 1]int
	n := 0
	for i := range view.Visible() {
		v := vectors[i]
		if all[i] = far; v == nil || len(v.codes) != len(q.codes) {
			cosines[i] = float32(math.NaN())
			continue
		}
		d := distance(q.bits, v.bits)
		all[i] = uint16(d)
		count[d]++
		n++
	}
	if n == 0 {
		return nil
	}
	limit, mask := nearest(&count), sample(n)
	var sum, of int64
	for i := range view.Visible() {
		d := all[i]
		near, drawn := int(d) <= limit, d != far && vectors[i].lot&mask == 0
		if !near && !drawn {
			continue
		}
		c := vectors[i].cosine(q)
		if near {
			cosines[i] = float32(c)
		}
		if drawn {
			sum += int64(math.Round(c * whole))
			of++
		}
	}
	mean := float64(sum) / whole / float64(of+few)
	mean = min(max(mean, 0), 0.99)
	return func(item int) float64 { // NaN is the largest
		return weight * max(0, (float64(cosines[item])-mean)/(1-mean)-floor)
	}
}

// whole is what a cosine of 1 is as a whole number.
const whole = 1 << 30

// nearest returns the distance within which the closest items are.
func nearest(count *[maxDimensions + 1]int) int {
	n := 0
	for d, c := range count {
		if n += c; n >= closest {
			return d
		}
	}
	return maxDimensions
}

// sample returns the bits that are 0 in the lots of a sample of n items.
func sample(n int) uint32 {
	mask := uint32(0)
	if n > closest {
		for ; n > sampled; n /= 2 {
			mask = mask<<1 | 1
		}
	}
	return mask
}
