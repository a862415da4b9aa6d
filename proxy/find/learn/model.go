package learn

import (
	"math"
	"slices"
	"sync"
	"weak"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/find"
)

// About says what a model was made of.
type About struct {
	Pairs   int `json:"pairs"`   // that count
	Callers int `json:"callers"` // of these
	Tools   int `json:"tools"`   // that it knows
	Left    int `json:"left"`    // tools that too few callers have called, or too seldom
}

// Model is what is known of the searches of one tenant. It is safe for concurrent use.
// Its zero value knows nothing.
type Model struct {
	About About

	tools  []trained
	number map[tool]uint32
	lists  map[string][]entry // by word; each sorted by tool

	mu     sync.Mutex
	places []place // in the latest indexes, the newest first
}

// entry is the weight of a word in the centroid of a tool.
type entry struct {
	tool   uint32
	weight float32
}

// place says where the tools of a model are in an index.
type place struct {
	of    weak.Pointer[find.Index]
	tools []uint32 // by item: 1 + the tool, or 0
}

// maxPlaces is how many indexes a model knows its tools in: the current one, and the one
// before, while searches of it end.
const maxPlaces = 2

// boost is how much a query like the past ones adds to a score, where the words of the
// definition give between 0 and about 1. It was fitted on a half of MetaTool.
const boost = 1.25

// Advise returns what the model adds to the scores of a view for a query, nil for
// nothing. It is the method of Rocchio ("Relevance feedback in information retrieval",
// 1971): the cosine of the query and the centroid of the queries after which a tool was
// called.
func (m *Model) Advise(query string, v *find.View) func(item int) float64 {
	if m == nil || len(m.tools) == 0 {
		return nil
	}
	terms := words(query)
	if !slices.ContainsFunc(terms, func(w string) bool { return len(m.lists[w]) > 0 }) {
		return nil
	}
	tools := m.toolsIn(v.Index())
	seen, n := visible(v, tools, len(m.tools))
	if n == 0 {
		return nil
	}
	scores, length, any := make([]float32, len(m.tools)), 0.0, false
	for _, word := range terms {
		df := 0
		for _, e := range m.lists[word] {
			df += int(seen[e.tool/64] >> (e.tool % 64) & 1)
		}
		weight := idf(n, df) // also of a word that nobody has used: the query asks for more than is known
		length += weight * weight
		if df == 0 {
			continue
		}
		any = true
		for _, e := range m.lists[word] {
			scores[e.tool] += float32(weight) * e.weight
		}
	}
	if !any {
		return nil
	}
	factor := boost / math.Sqrt(length)
	return func(item int) float64 {
		if t := tools[item]; t != 0 {
			return factor * float64(scores[t-1])
		}
		return math.NaN()
	}
}

// visible returns the tools of which a view has an item, one bit a tool, and their number.
func visible(v *find.View, tools []uint32, of int) (seen []uint64, n int) {
	seen = make([]uint64, (of+63)/64)
	for item := range v.Visible() {
		t := tools[item]
		if t == 0 {
			continue
		}
		t--
		n += int(^seen[t/64] >> (t % 64) & 1)
		seen[t/64] |= 1 << (t % 64)
	}
	return seen, n
}

// idf is the inverse document frequency as the search computes it.
func idf(n, df int) float64 { return math.Log(1 + (float64(n-df)+0.5)/(float64(df)+0.5)) }

// toolsIn returns, for each item of an index, 1 + the tool that it is, or 0.
func (m *Model) toolsIn(x *find.Index) []uint32 {
	of := weak.Make(x)
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.IndexFunc(m.places, func(p place) bool { return p.of == of }); i >= 0 {
		return m.places[i].tools
	}
	p := place{of, make([]uint32, x.Len())}
	for i := range p.tools {
		if t, ok := m.number[tool{x.Server(i), x.Name(i)}]; ok && x.Kind(i) == mcp.Tool {
			p.tools[i] = t + 1
		}
	}
	m.places = append([]place{p}, m.places[:min(len(m.places), maxPlaces-1)]...)
	return p.tools
}
