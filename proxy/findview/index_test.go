package findview_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	log := slog.New(slog.DiscardHandler)
	x := findview.NewIndex[*definition]()
	for step, c := range []*findview.Catalog[*definition]{
		of(all[:2000]), of(all[100:2000], all[2000:2010]), of(all[5000:6000]), of(all[5000:6000], all[5000:5010]), of(all[9000:9010]), of(all[9000:9020]),
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
			if _, twice := read[item.Name]; twice || item.Name != got.Name(i) || item.Description == "" {
				t.Errorf("step %d: item %d, %s, is read as %+v", step, i, got.Name(i), item)
			}
			read[item.Name] = item
		}
		if len(read) != got.Len() || got.Len() != want.Len() {
			t.Errorf("step %d: %d of %d items are read, and there are %d", step, len(read), got.Len(), want.Len())
		}
		for _, query := range []string{"send mail", "list open issues of company3", "weather tomorrow", "purpose5003"} {
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
