package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/store"
)

// learning checks that searches and models are those of their tenant, that each caller
// has a bounded number, and that old ones go.
func learning(t *testing.T, s *store.Store) {
	l, ctx := store.NewLearning(s), t.Context()
	now := time.Now().UTC().Round(time.Microsecond)
	const one, other = "one\x00\xff", "one\x00\xfe" // databases would take neither as a text
	pair := func(tenant, caller, tool, query string, ago time.Duration) store.SearchPair {
		return store.SearchPair{Tenant: tenant, Caller: caller, Server: "s", Tool: tool, Query: query, At: now.Add(-ago), Place: 2, Shadow: -1}
	}
	var many []store.SearchPair
	for i := range store.MaxSearchPairsOfCaller + 5 {
		many = append(many, pair(one, "alice", "s__x", strings.Repeat("a", i+1), time.Duration(100-i)*time.Minute))
	}
	many = append(many, pair(one, "bob", "s__x", "bob's", time.Hour), pair(one, "alice", "s__y", strings.Repeat("ä", 2000), 0),
		pair(other, "alice", "s__x", "of another\x00tenant", 0), pair(one, "carol", "s__x", "old", store.SearchPairsKept+time.Hour))
	must(t, l.Add(ctx, many))
	must(t, l.Prune(ctx, now))
	tenants, err := l.Tenants(ctx)
	must(t, err)
	if diff := cmp.Diff([]string{other, one}, tenants); diff != "" {
		t.Errorf("tenants (-want +got):\n%s", diff)
	}
	list, err := l.Pairs(ctx, one)
	must(t, err)
	of := map[string]int{}
	for _, p := range list {
		of[p.Tool+" "+p.Caller]++
		if p.Tenant != one || len(p.Query) > store.MaxSearchQuery || p.Query == "a" || p.Query == "old" || p.Place != 2 || p.Shadow != -1 {
			t.Errorf("kept: %+v", p)
		}
	}
	want := map[string]int{
		"s__x " + store.PrincipalHash("alice"): store.MaxSearchPairsOfCaller, "s__x " + store.PrincipalHash("bob"): 1, "s__y " + store.PrincipalHash("alice"): 1,
	}
	if diff := cmp.Diff(want, of); diff != "" || !list[0].At.Equal(now) {
		t.Errorf("pairs (-want +got), the latest of %v:\n%s", list[0].At, diff)
	}
	must(t, l.PutModel(ctx, one, []byte("first")))
	must(t, l.PutModel(ctx, other, []byte("of the other")))
	must(t, l.PutModel(ctx, one, []byte("second")))
	models, err := l.Models(ctx)
	must(t, err)
	if len(models) != 2 || models[0].Tenant != one || string(models[0].Model) != "second" || string(models[1].Model) != "of the other" {
		t.Errorf("models: %q", models)
	}
	recently(t, "TrainedAt", models[0].TrainedAt)
	forgotten, err := l.Forget(ctx, one)
	must(t, err)
	models, err = l.Models(ctx)
	must(t, err)
	rest, err := l.Pairs(ctx, other)
	must(t, err)
	if forgotten != len(list) || len(models) != 1 || models[0].Tenant != other || len(rest) != 1 {
		t.Errorf("%d pairs are forgotten, and %d models and %d pairs are left", forgotten, len(models), len(rest))
	}
}
