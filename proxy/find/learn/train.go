package learn

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/proxy/find"
)

// tool names a tool.
type tool struct{ server, name string }

// trained is what a model knows of a tool.
type trained struct {
	tool
	words  []string // sorted
	counts []int    // by word: after how many searches with it the tool was called
}

// Train makes a model of the pairs of one tenant. Of each caller the first [MaxPerCaller]
// pairs of a tool count, so the latest should come first. Tools with fewer than [MinPairs]
// pairs, or with pairs of fewer than callers callers, are left out. The order of pairs has
// no other effect.
func Train(pairs []Pair, callers int) *Model {
	type examples struct {
		of    map[string]int // pairs that count, by caller
		words map[string]int
		pairs int
	}
	all := make(map[tool]*examples)
	for i := range pairs {
		p := &pairs[i]
		key := tool{p.Server, p.Tool}
		e := all[key]
		if e == nil {
			e = &examples{of: make(map[string]int), words: make(map[string]int)}
			all[key] = e
		}
		if e.of[p.Caller] >= MaxPerCaller || e.pairs >= MaxPerTool {
			continue
		}
		e.of[p.Caller]++
		e.pairs++
		for _, w := range words(p.Query) {
			e.words[w]++
		}
	}
	m := &Model{}
	who := make(map[string]bool)
	for key, e := range all {
		if len(e.of) < callers || e.pairs < MinPairs || len(e.words) == 0 {
			m.About.Left++
			continue
		}
		m.About.Pairs += e.pairs
		for caller := range e.of {
			who[caller] = true
		}
		m.tools = append(m.tools, most(key, e.words))
	}
	slices.SortFunc(m.tools, func(a, b trained) int {
		return cmp.Or(strings.Compare(a.server, b.server), strings.Compare(a.name, b.name))
	})
	if more := len(m.tools) - maxTools; more > 0 {
		m.tools, m.About.Left = m.tools[:maxTools], m.About.Left+more
	}
	m.About.Tools, m.About.Callers = len(m.tools), len(who)
	m.invert()
	return m
}

// most returns a tool with the words that were used most often for it.
func most(key tool, counts map[string]int) trained {
	t := trained{tool: key}
	for w := range counts {
		t.words = append(t.words, w)
	}
	slices.SortFunc(t.words, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	t.words = t.words[:min(len(t.words), maxWords)]
	slices.Sort(t.words)
	for _, w := range t.words {
		t.counts = append(t.counts, counts[w])
	}
	return t
}

// words returns the words of a query that can be learned, each once and sorted. What has
// a digit in it is left out: it is more often the id of something than what somebody
// wants to do.
func words(query string) []string {
	list := slices.DeleteFunc(find.Terms(query), func(w string) bool { return strings.ContainsAny(w, "0123456789") })
	slices.Sort(list)
	return slices.Compact(list)
}

// weightOf is the weight of a word in a centroid: the logarithm of how often it occurs
// (Buckley, Salton and Allan, "Automatic retrieval with locality information using
// SMART", 1992: "lnc" for what is searched and "ltc" for queries). It does not depend on
// other tools, and neither does the length of the centroid.
func weightOf(count int) float64 { return 1 + math.Log(float64(count)) }

// invert makes the lists by word of the words by tool.
func (m *Model) invert() {
	m.lists = make(map[string][]entry)
	m.number = make(map[tool]uint32, len(m.tools))
	for i := range m.tools {
		t := &m.tools[i]
		m.number[t.tool] = uint32(i)
		length := 0.0
		for _, n := range t.counts {
			length += weightOf(n) * weightOf(n)
		}
		length = math.Sqrt(length)
		for j, w := range t.words {
			m.lists[w] = append(m.lists[w], entry{uint32(i), float32(weightOf(t.counts[j]) / length)})
		}
	}
}
