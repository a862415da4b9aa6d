package findview_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/findview"
)

// TestRebuilt changes a catalog little and wholly: searches find what they would in a new
// index, and the texts of all items can be read again, each once.
func TestRebuilt(t *testing.T) {
	all, _ := definitions(t)
	of := func(lists ...[]*definition) *findview.Catalog[*definition] {
		return &findview.Catalog[*definition]{Items: func(yield func(*definition, func() find.Item) bool) {
			for _, list := range lists {
				for _, d := range list {
					if !yield(d, d.item) {
						return
					}
				}
			}
		}}
	}
	// other returns a list with other definitions of some items.
	other := func(list []*definition, step int, at ...int) []*definition {
		list = slices.Clone(list)
		for _, i := range at {
			d := *list[i]
			d.raw = mcp.SetMember(d.raw, "description", mcp.Quote(fmt.Sprintf("Now it tells the weather of planet%d.", step)))
			list[i] = &d
		}
		return list
	}
	log := slog.New(slog.DiscardHandler)
	x := findview.NewIndex[*definition]()
	for step, c := range []*findview.Catalog[*definition]{
		of(all[:2000]), of(all[100:2000], all[2000:2010]), of(all[5000:6000]), of(all[5000:6000], all[5000:5010]), of(all[9000:9010]), of(all[9000:9020]),
		of(all[:1000]), of(other(all[:1000], 1, 0, 7, 999)), of(other(all[:1000], 2, 7, 8)), // of some items another definition
		of(all[:1000], all[:900]), of(other(all[:1000], 3, 7), all[:900]), of(all[:1000], all[:900]), // which not all are listed
		of(other(all[:1000], 4, 7), other(all[:900], 4, 7)), of(other(all[:1000], 5, 7), other(all[:900], 6, 7)), of(all[:1000], all[:900]),
		of(all[:500], all[501:1000]), of(slices.Concat(all[1:1000], all[:1])), // one gone, and another order
	} {
		x.Set(c)
		x.Next(log)
		fresh := findview.NewIndex[*definition]()
		fresh.Set(c)
		fresh.Next(log)
		got, want := x.Current(), fresh.Current()
		read := map[string]find.Item{}
		for i, again := range got.Items() {
			item := again()
			if _, twice := read[item.Hash]; twice || item.Name != got.Name(i) || item.Description == "" {
				t.Errorf("step %d: item %d, %s, is read as %+v", step, i, got.Name(i), item)
			}
			read[item.Hash] = item
		}
		if len(read) != got.Len() || got.Len() != want.Len() {
			t.Errorf("step %d: %d of %d items are read, and there are %d", step, len(read), got.Len(), want.Len())
		}
		for _, query := range []string{"send mail", "list open issues of company3", "weather tomorrow", "purpose5003", "planet2", "planet6", "planet7 weather"} {
			found := func(b *findview.Built[*definition]) (names []string) {
				for _, h := range b.View(func(int) bool { return true }).Search(find.Query{Text: query}).Hits {
					names = append(names, fmt.Sprintf("%s %.6f", b.Name(h.Item), h.Score))
				}
				return names
			}
			if diff := cmp.Diff(found(want), found(got)); diff != "" {
				t.Errorf("step %d: %s (-new +rebuilt):\n%s", step, query, diff)
			}
		}
	}
}
