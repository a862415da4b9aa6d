package find_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/find"
)

// says is an adviser that always says the same.
type says func(item int) float64

func (s says) Advise(context.Context, find.Caller, string, *find.View) func(int) float64 { return s }

// TestAdvise sums what advisers say, and makes nothing where nobody says anything.
func TestAdvise(t *testing.T) {
	x := find.Build([]find.Item{
		{Kind: mcp.Tool, Name: "a", Server: "one", Hash: "1"},
		{Kind: mcp.Tool, Name: "b", Server: "two", Hash: "2"},
		{Kind: mcp.Tool, Name: "c", Server: "one", Hash: "3"},
	}, nil, nil)
	v := x.View(func(i int) bool { return i != 1 })
	one, ten := says(func(i int) float64 { return float64(i) }), says(func(i int) float64 { return 10 * float64(i) })
	for _, c := range []struct {
		all  []find.Adviser
		want float64
	}{{[]find.Adviser{one}, 2}, {[]find.Adviser{says(nil), one}, 2}, {[]find.Adviser{one, says(nil), ten}, 22}} {
		if got := find.Advise(t.Context(), c.all, find.Caller{Tenant: "t"}, "q", v)(2); got != c.want {
			t.Errorf("%d advisers say %v, want %v", len(c.all), got, c.want)
		}
	}
	unsure := says(func(int) float64 { return math.NaN() })
	if got := find.Advise(t.Context(), []find.Adviser{unsure, one, unsure}, find.Caller{Tenant: "t"}, "q", v)(2); got != 2 {
		t.Errorf("beside advisers who know nothing of an item another says %v, want 2", got)
	}
	none := []find.Adviser{says(nil), says(nil)}
	if got := find.Advise(t.Context(), none, find.Caller{Tenant: "t"}, "q", v); got != nil {
		t.Error("advisers that say nothing make a function")
	}
	if n := testing.AllocsPerRun(100, func() { find.Advise(context.Background(), nil, find.Caller{Tenant: "t"}, "q", v) }); n != 0 {
		t.Errorf("no advisers cost %v allocations", n)
	}
	if got := slices.Collect(v.Visible()); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("visible: %v", got)
	}
	if v.Index() != x || x.Len() != 3 || x.Name(1) != "b" || x.Server(2) != "one" || x.Hash(2) != "3" {
		t.Error("the index does not know its items")
	}
}

// TestBoostOfUnknownItems compares tools of which something is known with tools of which
// nothing is.
func TestBoostOfUnknownItems(t *testing.T) {
	var items []find.Item
	for _, name := range []string{"open_issue", "open_ticket", "weather"} {
		items = append(items, find.Item{Kind: mcp.Tool, Name: name, Server: "s", Hash: name})
	}
	v := find.Build(items, nil, nil).View(everything)
	first := func(boost func(item int) float64) (names []string) {
		for _, h := range v.Search(find.Query{Text: "open issue", Boost: boost}).Hits {
			names = append(names, items[h.Item].Name)
		}
		return names
	}
	for name, c := range map[string]struct {
		boosts [3]float64
		want   []string
	}{
		"nothing is known":            {[3]float64{math.NaN(), math.NaN(), math.NaN()}, []string{"open_issue", "open_ticket"}},
		"the words speak for it":      {[3]float64{math.NaN(), 0.5, 0}, []string{"open_issue", "open_ticket"}},
		"no word speaks for it":       {[3]float64{0, 0.5, math.NaN()}, []string{"open_issue", "open_ticket"}},
		"something speaks against it": {[3]float64{-9, math.NaN(), 0.1}, []string{"open_ticket", "weather"}},
	} {
		if got := first(func(i int) float64 { return c.boosts[i] }); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestBoostIsExplained has the boost among the reasons, and all shares make up the whole.
func TestBoostIsExplained(t *testing.T) {
	items := []find.Item{{Kind: mcp.Tool, Name: "open_issue", Server: "s", Hash: "1"}, {Kind: mcp.Tool, Name: "weather", Server: "s", Hash: "2"}}
	v := find.Build(items, nil, nil).View(everything)
	r := v.Search(find.Query{Text: "open issue", Explain: true, Boost: func(item int) float64 { return []float64{0.5, 0.3}[item] }})
	if len(r.Hits) != 2 {
		t.Fatalf("%d hits", len(r.Hits))
	}
	for _, h := range r.Hits {
		sum, boost := 0.0, 0.0
		for _, why := range h.Reasons {
			sum += why.Share
			if why.Field == "boost" {
				boost = why.Share
			}
		}
		if math.Abs(sum-1) > 1e-6 || boost <= 0 || (boost == 1) != (h.Item == 1) {
			t.Errorf("%s: %+v", items[h.Item].Name, h.Reasons)
		}
	}
}
