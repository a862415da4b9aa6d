package find_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/find"
)

// FuzzSearch builds an index with one item of any text and searches it for any query:
// nothing panics, results keep their bounds, and the same search gives the same result.
func FuzzSearch(f *testing.F) {
	for _, s := range []struct{ query, name, title, description, schema string }{
		{"close the stale pull requests and tell the team", "updatePullRequest", "Update", "Change a pull request. Closes it.", `{"properties":{"state":{"enum":["closed"],"description":"new state"}}}`},
		{"", "", "", "", ""},
		{"\x00\xff\xfe", "\xff", "\x00", "\xc3\x28", "\xff"},
		{"天气预报、然后发送消息", "天气", "天気", "天气预报。查询", `{"properties":{"城市":{"description":"城市"}}}`},
		{"สภาพอากาศ погода מזג", "погода", "", "Погода сегодня.", `{"anyOf":[{"$ref":"#"}]}`},
		{"~/a b/c.csv https://x.y/z?q=1 me@x.org C:\\x\\y.txt ./ ../ @ . / \\", "read_file", "", "", `{"items":{"items":{"items":{"properties":{"a":true}}}}}`},
		{"HTTPServer2XX k8s i18n e-mail don't user's ’s", "HTTPServer2XXHandler__v2", "", "A.B.C. d", `[]`},
		{strings.Repeat("and then ", 500), strings.Repeat("a_", 200), strings.Repeat("B", 300), strings.Repeat("word. ", 300), `{"enum":[1,"x",null]}`},
		{"İstanbul ǅ ﬃ 𝔘𝔫𝔦 👩‍👩‍👧 ́̀", "ﬃ", "ǅ", "İ", `{"properties":{"\ud800":{}}}`},
	} {
		f.Add(s.query, s.name, s.title, s.description, []byte(s.schema))
	}
	f.Fuzz(func(t *testing.T, query, name, title, description string, schema []byte) {
		items := append(slices.Clone(catalog), find.Item{Kind: mcp.Tool, Server: "fuzz", Name: name, Title: title, Description: description, Schema: schema})
		first := find.Build(items, map[string]string{"fuzz": description}, nil)
		again := find.Build(items, map[string]string{"fuzz": description}, first)
		v, w := first.View(everything), again.View(everything)
		q := find.Query{Text: query, Limit: 5, Explain: true}
		r := v.Search(q)
		if len(r.Hits) > 5 || r.More < 0 || r.More > 0 && len(r.Hits) < 5 || len(r.Steps) > 8 {
			t.Errorf("%d hits, %d more, %d steps", len(r.Hits), r.More, len(r.Steps))
		}
		seen := map[int]bool{}
		for _, h := range r.Hits {
			if seen[h.Item] || !(h.Score > 0) || h.Item >= len(items) {
				t.Errorf("hit %+v", h)
			}
			seen[h.Item] = true
		}
		other := w.Search(q)
		if got, want := found(items, other), found(items, r); !slices.Equal(got, want) || other.More != r.More {
			t.Errorf("an index that reuses another finds %q, and a new one %q", got, want)
		}
		if got := v.Nearest(query, 3); len(got) > 3 {
			t.Errorf("%d nearest names", len(got))
		}
	})
}
