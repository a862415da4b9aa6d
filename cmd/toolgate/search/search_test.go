package search

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/toolgate/toolgate/internal/retrieval"
	"github.com/toolgate/toolgate/proxy/findview"
)

func sets(t *testing.T, name string) (*Catalog, []retrieval.Case) {
	t.Helper()
	folder := filepath.Join("..", "..", "..", "internal", "retrieval", "testdata", name)
	catalog, err := ReadCatalog(filepath.Join(folder, "tools.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	cases, err := retrieval.ReadCases(filepath.Join(folder, "queries.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return catalog, cases
}

// TestAnswersFit evaluates the set of real servers. No answer is larger than its budget,
// and the halves have rows of their own.
func TestAnswersFit(t *testing.T) {
	catalog, cases := sets(t, "real")
	rows, err := Evaluate(cases, func(query string) ([]Found, int, error) {
		found, tokens := catalog.Search(query)
		return found, tokens, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, r := range rows {
		kinds = append(kinds, r.Kind)
		if r.MaxTokens > findview.DefaultTokens || r.Tokens < 100 {
			t.Errorf("%s: answers have %.0f tokens, and at most %d", r.Kind, r.Tokens, r.MaxTokens)
		}
	}
	if want := []string{"single", "single, held out", "step", "step, held out", "task", "task, held out"}; !slices.Equal(kinds, want) {
		t.Errorf("the kinds are %q", kinds)
	}
	if unknown := Unknown(cases, catalog.Has); len(unknown) > 0 {
		t.Errorf("the catalog has no %v", unknown)
	}
}

func TestEvaluate(t *testing.T) {
	cases := []retrieval.Case{
		{Query: "a", Relevant: []string{"s/x"}},
		{Query: "b", Needs: [][]string{{"s__y", "s__z"}, {"s__x"}}},
	}
	rows, err := Evaluate(cases, func(string) ([]Found, int, error) {
		return []Found{{"s__x", "s/x"}, {"s__z", "s/z"}}, 10, nil
	})
	if err != nil || len(rows) != 1 || rows[0].Kind != "all" || rows[0].Recall1 != 75 || rows[0].Recall3 != 100 || rows[0].MRR != 1 {
		t.Errorf("got %+v, %v", rows, err)
	}
	if got := Unknown(cases, func(name string) bool { return name == "s__x" }); !slices.Equal(got, []string{"s/x", "s__y", "s__z"}) {
		t.Errorf("unknown: %v", got)
	}
	gone := errors.New("gone")
	if _, err := Evaluate(cases, func(string) ([]Found, int, error) { return nil, 0, gone }); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}
