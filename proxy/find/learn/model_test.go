package learn_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/find/learn"
)

// pairs are searches of some callers after each of which the same tool was called.
func pairs(server, tool, query string, callers ...string) (list []learn.Pair) {
	for _, c := range callers {
		list = append(list, learn.Pair{Query: query, Server: server, Tool: tool, Caller: c})
	}
	return list
}

func catalog(names ...string) (items []find.Item) {
	for _, n := range names {
		items = append(items, find.Item{Kind: mcp.Tool, Server: "s", Name: n, Hash: n})
	}
	return items
}

func all(int) bool { return true }

// TestFloor leaves out tools that too few callers have called, however often.
func TestFloor(t *testing.T) {
	var list []learn.Pair
	list = append(list, pairs("s", "enough", "tell my friends", "a", "b", "c")...)
	for range 50 {
		list = append(list, pairs("s", "few", "tell my friends", "a", "b")...)
	}
	list = append(list, pairs("s", "seldom", "tell my friends", "a", "b")...)
	if m := learn.Train(list[len(list)-2:], 1); m.About.Tools != 0 {
		t.Errorf("two pairs are enough: %+v", m.About)
	}
	m := learn.Train(list[:len(list)-2], learn.MinCallers)
	if want := (learn.About{Pairs: 3, Callers: 3, Tools: 1, Left: 1}); m.About != want {
		t.Errorf("got %+v, want %+v", m.About, want)
	}
	v := find.Build(catalog("few", "enough"), nil, nil).View(all)
	boost := m.Advise("friends", v)
	if !math.IsNaN(boost(0)) || boost(1) <= 0 {
		t.Errorf("few: %v, enough: %v", boost(0), boost(1))
	}
	if got := m.Advise("weather", v); got != nil {
		t.Error("something is said of a query that nobody asked")
	}
}

// TestNobodyOutweighsOthers bounds what one caller adds to a tool.
func TestNobodyOutweighsOthers(t *testing.T) {
	list := pairs("s", "x", "send money", "a", "b", "c")
	for range 1000 {
		list = append(list, pairs("s", "x", "weather", "a")...)
	}
	if m := learn.Train(list, 3); m.About.Pairs != learn.MaxPerCaller+2 {
		t.Errorf("%d pairs count", m.About.Pairs)
	}
	list = nil
	for i := range 1000 {
		list = append(list, pairs("s", "x", "weather", fmt.Sprint(i))...)
	}
	if m := learn.Train(list, 3); m.About.Pairs != learn.MaxPerTool {
		t.Errorf("%d pairs count", m.About.Pairs)
	}
}

// TestEncode writes and reads models, and refuses what none is.
func TestEncode(t *testing.T) {
	m := learn.Train(append(pairs("s", "x", "close the stale tickets", "a", "b", "c"), pairs("s", "y", "open tickets of user4711", "a", "b", "b")...), 2)
	text, err := m.Encode()
	if err != nil || strings.Contains(string(text), "4711") {
		t.Fatalf("got %s, %v", text, err)
	}
	again, err := learn.Decode(text)
	if err != nil || again.About != m.About {
		t.Fatalf("got %+v, %v", again, err)
	}
	v := find.Build(catalog("x", "y", "z"), nil, nil).View(all)
	for i := range 2 {
		if a, b := m.Advise("stale tickets", v)(i), again.Advise("stale tickets", v)(i); a != b || a <= 0 {
			t.Errorf("tool %d: %v, and %v after it was read", i, a, b)
		}
	}
	for name, text := range map[string]string{
		"no JSON": "{", "another version": `{"format":9}`,
		"a tool twice":    `{"format":1,"tools":[{"server":"s","name":"x","words":{"a":1}},{"server":"s","name":"x","words":{"a":1}}]}`,
		"no words":        `{"format":1,"tools":[{"server":"s","name":"x","words":{}}]}`,
		"a count below 1": `{"format":1,"tools":[{"server":"s","name":"x","words":{"a":0}}]}`,
	} {
		if _, err := learn.Decode([]byte(text)); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
	var none *learn.Model
	if none.Advise("x", v) != nil || new(learn.Model).Advise("x", v) != nil {
		t.Error("a model of nothing says something")
	}
}

// TestSince drops the words that nobody has used for long, and the tools that have none
// left.
func TestSince(t *testing.T) {
	now := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	at := func(list []learn.Pair, ago time.Duration) []learn.Pair {
		for i := range list {
			list[i].At = now.Add(-ago)
		}
		return list
	}
	const day = 24 * time.Hour
	m := learn.Train(slices.Concat(at(pairs("s", "x", "send money", "a", "b", "c"), 100*day), at(pairs("s", "x", "send flowers", "a"), 3*day),
		at(pairs("s", "y", "weather", "a", "b", "c"), 100*day), pairs("s", "z", "open door", "a", "b", "c")), 3)
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if m, err = learn.Decode(text); err != nil { // days are kept
		t.Fatal(err)
	}
	if same, changed := m.Since(now.Add(-101 * day)); changed || same != m {
		t.Error("a model without old words is changed")
	}
	less, changed := m.Since(now.Add(-90 * day))
	text, err = less.Encode()
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	for word, want := range map[string]bool{"money": false, "weather": false, `"y"`: false, "send": true, "flower": true, "open": true} {
		if strings.Contains(string(text), word) != want {
			t.Errorf("%s: %s", word, text)
		}
	}
	v := find.Build(catalog("x", "y"), nil, nil).View(all)
	if less.Advise("weather", v) != nil || less.Advise("money", v) != nil || less.Advise("flowers", v)(0) <= 0 {
		t.Error("what is advised is not what is left")
	}
	old := learn.Train(at(pairs("s", "y", "weather", "a", "b", "c"), 100*day), 3)
	if none, changed := old.Since(now); none != nil || !changed {
		t.Error("something is left of old words")
	}
	before, err := learn.Decode([]byte(`{"format":1,"tools":[{"server":"s","name":"x","words":{"a":2}}]}`)) // without days
	if err != nil {
		t.Fatal(err)
	}
	if _, changed := before.Since(now); changed {
		t.Error("words of unknown age are dropped")
	}
}

// TestLargeModels keeps the tools with the most searches where there is no room for all.
func TestLargeModels(t *testing.T) {
	var list []learn.Pair
	for i := range 3000 {
		list = append(list, pairs("s", fmt.Sprintf("t%04d%s", i, strings.Repeat("n", 6000)), "tell my friends", "a", "b", "c")...)
	}
	list = append(list, pairs("s", "x", "send money", "a", "b", "c", "d")...)
	m := learn.Train(list, 3)
	text, err := m.Encode()
	if err != nil || len(text) > learn.MaxEncoded || len(text) < learn.MaxEncoded*9/10 || m.About.Tools+m.About.Left != 3001 {
		t.Errorf("%d bytes, %+v, %v", len(text), m.About, err)
	}
	if m.Advise("send money", find.Build(catalog("x"), nil, nil).View(all)) == nil {
		t.Error("the tool with the most searches is left out")
	}
}

// TestHiddenToolsChangeNothing compares searches with models and catalogs that differ in
// what is hidden.
func TestHiddenToolsChangeNothing(t *testing.T) {
	words := strings.Fields("create list delete issue ticket file folder weather message send open close row page")
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 8))
		some := func(n int) string {
			list := make([]string, 1+r.IntN(n))
			for i := range list {
				list[i] = words[r.IntN(len(words))]
			}
			return strings.Join(list, " ")
		}
		tools := func(prefix string, n int) (items []find.Item, past []learn.Pair) {
			for i := range n {
				it := find.Item{Kind: mcp.Tool, Server: "s", Name: fmt.Sprintf("%s_%s_%d", strings.ReplaceAll(some(2), " ", "_"), prefix, i), Description: some(6)}
				it.Hash = it.Name
				if items = append(items, it); r.IntN(3) > 0 {
					for range 1 + r.IntN(5) {
						past = append(past, pairs("s", it.Name, some(5), "a", "b", "c")...)
					}
				}
			}
			return items, past
		}
		shown, known := tools("shown", 15)
		hidden, unseen := tools("hidden", 15)
		one := find.Build(shown, nil, nil).View(all)
		other := find.Build(slices.Concat(hidden, shown), nil, nil).View(func(i int) bool { return i >= len(hidden) })
		alone, both := learn.Train(known, 3), learn.Train(slices.Concat(known, unseen), 3)
		for range 20 {
			q := find.Query{Text: some(5), Limit: 30}
			answer := func(v *find.View, m *learn.Model, names []find.Item) (b strings.Builder) {
				q.Boost = m.Advise(q.Text, v)
				result := v.Search(q)
				for _, h := range result.Hits {
					fmt.Fprintf(&b, "%s %x\n", names[h.Item].Name, h.Score)
				}
				fmt.Fprint(&b, result.More)
				return b
			}
			a, b := answer(one, alone, shown), answer(other, both, slices.Concat(hidden, shown))
			if a.String() != b.String() {
				t.Fatalf("seed %d, %q:\n%s\nand with hidden tools:\n%s", seed, q.Text, a.String(), b.String())
			}
		}
	}
}

// BenchmarkSearch searches 10,000 tools of which all have past searches.
func BenchmarkSearch(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 3000)
	for i := range words {
		n := 4 + r.IntN(5)
		for range n {
			words[i] += string(rune('a' + r.IntN(26)))
		}
	}
	some := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = words[int(float64(len(words))*math.Pow(r.Float64(), 3))] // few are common
		}
		return strings.Join(list, " ")
	}
	var items []find.Item
	var past []learn.Pair
	for i := range 10_000 {
		items = append(items, find.Item{Kind: mcp.Tool, Server: fmt.Sprint("s", i/50), Name: fmt.Sprint("tool", i), Description: some(20), Hash: fmt.Sprint(i)})
		for c := range 10 {
			past = append(past, learn.Pair{Query: some(8), Server: items[i].Server, Tool: items[i].Name, Caller: fmt.Sprint(c)})
		}
	}
	v := find.Build(items, nil, nil).View(all)
	for name, m := range map[string]*learn.Model{"learned": learn.Train(past, 3), "words alone": nil} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			m.Advise(past[0].Query, v) // finds the tools of the index, once for each
			var times []time.Duration
			for i := 0; b.Loop(); i++ {
				q := find.Query{Text: past[i*7919%len(past)].Query}
				start := time.Now()
				q.Boost = m.Advise(q.Text, v)
				v.Search(q)
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
		})
	}
}
