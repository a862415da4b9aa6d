package find_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/find"
)

var pairs = flag.Int("pairs", 20_000, "how many pairs of worlds TestHiddenItemsChangeNothing compares")

// vocabulary are the words of random worlds: few, so that items share them, with some
// that are spelled alike, related, or of other scripts.
var vocabulary = strings.Fields(`create make list lists search delete remove issue issues isue ticket pull
	request file files flie folder forecast weather repo repository github gitlab slack message mesage
	mail email calendar event user k8s kubernetes pod pods 天气 天气预报 查询 time zone timezone`)

func phrase(r *rand.Rand, longest int) string {
	words := make([]string, 1+r.IntN(longest))
	for i := range words {
		words[i] = vocabulary[r.IntN(len(vocabulary))]
	}
	return strings.Join(words, " ")
}

func randomItem(r *rand.Rand) find.Item {
	it := find.Item{
		Kind: mcp.Kinds[r.IntN(len(mcp.Kinds))], Server: []string{"github", "gitlab", "files", "weather map"}[r.IntN(4)],
		Name: strings.ReplaceAll(phrase(r, 3), " ", "_"), Description: phrase(r, 8) + ". " + phrase(r, 12), ReadOnly: r.IntN(2) == 0,
	}
	if r.IntN(3) == 0 {
		it.Title = phrase(r, 3)
	}
	if r.IntN(2) == 0 {
		it.Schema = fmt.Appendf(nil, `{"properties":{%q:{"description":%q,"enum":[%q]}}}`, phrase(r, 1), phrase(r, 5), phrase(r, 1))
	}
	it.Hash = fmt.Sprint(it)
	return it
}

// world is a catalog of which some items are visible.
type world struct {
	items   []find.Item
	visible []bool
	index   *find.Index
	view    *find.View
}

func newWorld(shown, hidden []find.Item, r *rand.Rand, servers map[string]string, previous *find.Index) *world {
	w := &world{}
	for len(shown)+len(hidden) > 0 { // the order of the visible items stays
		from := &shown
		if r.IntN(len(shown)+len(hidden)) >= len(shown) {
			from = &hidden
		}
		w.items = append(w.items, (*from)[0])
		w.visible = append(w.visible, from == &shown)
		*from = (*from)[1:]
	}
	w.index = find.Build(w.items, servers, previous)
	w.view = w.index.View(func(i int) bool { return w.visible[i] })
	return w
}

// answer is all that a caller gets, as text. Positions in the catalog become names.
func (w *world) answer(q find.Query, boosted bool) string {
	var b strings.Builder
	if boosted {
		q.Boost = func(i int) float64 {
			if !w.visible[i] {
				b.WriteString("HIDDEN\n")
			}
			if n := len(w.items[i].Hash) % 7; n < 5 {
				return float64(n) / 50
			}
			return math.NaN()
		}
	}
	r := w.view.Search(q)
	for _, h := range r.Hits {
		fmt.Fprintf(&b, "%s %x %v\n", w.items[h.Item].Hash, h.Score, h.Reasons)
		if !w.visible[h.Item] {
			b.WriteString("HIDDEN\n")
		}
	}
	fmt.Fprintln(&b, r.More, r.Steps)
	for _, i := range w.view.Nearest(q.Text, 5) {
		if !w.visible[i] {
			b.WriteString("HIDDEN\n")
		}
		fmt.Fprintln(&b, w.items[i].Hash)
	}
	return b.String()
}

// Nothing that a caller gets depends on what the caller may not view: two worlds that
// differ only in hidden items give equal bytes, whatever index came before.
func TestHiddenItemsChangeNothing(t *testing.T) {
	const queries = 40 // for each pair of worlds
	var previous *find.Index
	for seed := range uint64(*pairs / queries) {
		r := rand.New(rand.NewPCG(seed, 23))
		items := func(n int) []find.Item {
			list := make([]find.Item, r.IntN(n))
			for i := range list {
				list[i] = randomItem(r)
			}
			return list
		}
		shown := items(25)
		if seed%10 == 0 {
			shown = append(shown, items(150)...)
		}
		servers := map[string]string{"github": phrase(r, 10), "weather map": phrase(r, 10)}
		a := newWorld(shown, items(80), r, servers, previous)
		b := newWorld(shown, items(40), r, servers, nil)
		previous = a.index
		if seed%3 == 0 {
			b = newWorld(shown, nil, r, servers, nil)
		}
		for range queries {
			q := find.Query{Text: phrase(r, 8), Limit: 1 + r.IntN(12), Explain: r.IntN(2) == 0}
			if r.IntN(3) == 0 {
				q.Text += []string{" and ", ", ", ". Then "}[r.IntN(3)] + phrase(r, 5)
			}
			if r.IntN(4) == 0 {
				q.Kinds = slices.Clone(mcp.Kinds[:1+r.IntN(3)])
			}
			if r.IntN(6) == 0 {
				q.Server = "github"
			}
			boosted := r.IntN(4) == 0
			if one, two := a.answer(q, boosted), b.answer(q, boosted); one != two || strings.Contains(one, "HIDDEN") {
				t.Fatalf("seed %d, query %+v:\none world:\n%s\nthe other:\n%s", seed, q, one, two)
			}
		}
	}
}
