package measure_test

import (
	"math"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/proxy/find/measure"
)

func TestMeasures(t *testing.T) {
	for _, c := range []struct {
		name    string
		needs   [][]string
		ranking string
		want    measure.Score
	}{
		{
			"two needs",
			[][]string{{"a/x", "b/x"}, {"c/y"}},
			"z/z b/x a/x c/y",
			measure.Score{Recall: [5]float64{0, 0.5, 1, 1, 1}, MRR: 0.5, NDCG: 0.651},
		},
		{"first", [][]string{{"a/x"}}, "a/x", measure.Score{Recall: [5]float64{1, 1, 1, 1, 1}, MRR: 1, NDCG: 1}},
		{"sixth", [][]string{{"a/x"}}, "1 2 3 4 5 a/x", measure.Score{Recall: [5]float64{0, 0, 0, 1, 1}, MRR: 1.0 / 6, NDCG: 0.356}},
		{"eleventh", [][]string{{"a/x"}}, "1 2 3 4 5 6 7 8 9 10 a/x", measure.Score{}},
		{"nothing found", [][]string{{"a/x"}}, "", measure.Score{}},
		{"nothing needed", nil, "a/x", measure.Score{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := measure.Of(&measure.Query{Needs: c.needs}, strings.Fields(c.ranking))
			got.NDCG = math.Round(got.NDCG*1000) / 1000
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestMean(t *testing.T) {
	m := measure.Mean([]measure.Score{{MRR: 1, Recall: [5]float64{1, 1, 1, 1, 1}}, {}, {}, {}})
	if m.N != 4 || m.MRR != 0.25 || m.Recall[2] != 0.25 || math.Abs(m.Interval-0.49) > 1e-9 {
		t.Errorf("got %+v", m)
	}
	if m := measure.Mean(nil); m != (measure.Summary{}) {
		t.Errorf("got %+v for nothing", m)
	}
}

func TestRead(t *testing.T) {
	tools, err := measure.ReadTools(strings.NewReader(`{"server":"a","name":"x","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"title":"X"}}` + "\n\n"))
	if err != nil || len(tools) != 1 || !tools[0].ReadOnly || tools[0].Title != "X" || string(tools[0].Schema) != `{"type":"object"}` {
		t.Errorf("got %+v, %v", tools, err)
	}
	queries, err := measure.ReadQueries(strings.NewReader(`{"id":"1","query":"q","relevant":["a/x","b/x"],"kind":"step"}`))
	if err != nil || len(queries) != 1 || measure.Of(&queries[0], []string{"a/x"}).Recall[0] != 0.5 {
		t.Errorf("got %+v, %v", queries, err)
	}
	for _, bad := range []string{`{"name":""}`, `{`, `{"server":"a"}`} {
		if _, err := measure.ReadTools(strings.NewReader("\n" + bad)); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%s: got %v", bad, err)
		}
	}
	for _, bad := range []string{`{"id":"1"}`, `[`, `{"query":"q"}`} {
		if _, err := measure.ReadQueries(strings.NewReader(bad)); err == nil || !strings.HasPrefix(err.Error(), "line 1: ") {
			t.Errorf("%s: got %v", bad, err)
		}
	}
}
