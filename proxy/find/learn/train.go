package learn

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/proxy/find"
)

// tool names a tool.
type tool struct{ server, name string }

// trained is what a model knows of a tool.
type trained struct {
	tool
	words  []string // sorted
	counts []int    // by word: after how many searches with it the tool was called
	days   []int    // by word: the day of the latest of them, counted from 1970; 0 for not known
}

// used says how often a word was used for a tool, and when last.
type used struct{ count, day int }

// examples are the pairs of a tool.
type examples struct {
	tool
	of    map[string]int // pairs that count, by caller
	words map[string]used
	pairs int
}

// dayOf returns the day of a time, 0 for the zero time.
func dayOf(at time.Time) int {
	if at.IsZero() {
		return 0
	}
	return int(max(1, at.Unix()/(24*60*60)))
}

// Train makes a model of the pairs of one tenant. Of each caller the first [MaxPerCaller]
// pairs of a tool count, so the latest should come first. Tools with fewer than [MinPairs]
// pairs, or with pairs of fewer than callers callers, are left out, and of too many tools
// those with the fewest pairs. The order of pairs has no other effect.
func Train(pairs []Pair, callers int) *Model {
	all := make(map[tool]*examples)
	for i := range pairs {
		p := &pairs[i]
		key := tool{p.Server, p.Tool}
		e := all[key]
		if e == nil {
			e = &examples{tool: key, of: make(map[string]int), words: make(map[string]used)}
			all[key] = e
		}
		if e.of[p.Caller] >= MaxPerCaller || e.pairs >= MaxPerTool {
			continue
		}
		e.of[p.Caller]++
		e.pairs++
		for _, w := range words(p.Query) {
			u := e.words[w]
			e.words[w] = used{u.count + 1, max(u.day, dayOf(p.At))}
		}
	}
	m := &Model{}
	var known []*examples
	for _, e := range all {
		if len(e.of) < callers || e.pairs < MinPairs || len(e.words) == 0 {
			m.About.Left++
			continue
		}
		known = append(known, e)
	}
	slices.SortFunc(known, func(a, b *examples) int {
		return cmp.Or(cmp.Compare(b.pairs, a.pairs), a.compare(b.tool))
	})
	who, size := make(map[string]bool), encodedAbout
	for i, e := range known {
		t := most(e.tool, e.words)
		if size += t.encodedSize(); i == maxTools || size > MaxEncoded {
			m.About.Left += len(known) - i
			break
		}
		m.tools = append(m.tools, t)
		m.About.Pairs += e.pairs
		for caller := range e.of {
			who[caller] = true
		}
	}
	slices.SortFunc(m.tools, func(a, b trained) int { return a.compare(b.tool) })
	m.About.Tools, m.About.Callers = len(m.tools), len(who)
	m.invert()
	return m
}

// Since returns what is left of a model without the words that nobody has used since a
// time, nil for nothing, and whether that is less. What it was made of is still said.
func (m *Model) Since(at time.Time) (less *Model, changed bool) {
	old := func(day int) bool { return day != 0 && day < dayOf(at) }
	less = &Model{About: m.About}
	for i := range m.tools {
		t := &m.tools[i]
		if !slices.ContainsFunc(t.days, old) {
			less.tools = append(less.tools, *t)
			continue
		}
		changed = true
		kept := trained{tool: t.tool}
		for j, day := range t.days {
			if !old(day) {
				kept.words, kept.counts, kept.days = append(kept.words, t.words[j]), append(kept.counts, t.counts[j]), append(kept.days, day)
			}
		}
		if len(kept.words) > 0 {
			less.tools = append(less.tools, kept)
		}
	}
	if !changed {
		return m, false
	}
	if len(less.tools) == 0 {
		return nil, true
	}
	less.invert()
	return less, true
}

func (t tool) compare(o tool) int {
	return cmp.Or(strings.Compare(t.server, o.server), strings.Compare(t.name, o.name))
}

// most returns a tool with the words that were used most often for it.
func most(key tool, uses map[string]used) trained {
	t := trained{tool: key}
	for w := range uses {
		t.words = append(t.words, w)
	}
	slices.SortFunc(t.words, func(a, b string) int {
		return cmp.Or(cmp.Compare(uses[b].count, uses[a].count), strings.Compare(a, b))
	})
	t.words = t.words[:min(len(t.words), maxWords)]
	slices.Sort(t.words)
	for _, w := range t.words {
		t.counts, t.days = append(t.counts, uses[w].count), append(t.days, uses[w].day)
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
