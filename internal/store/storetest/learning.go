package storetest

import (
	"errors"
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
	lately, err := l.Searches(ctx, now.Add(-time.Hour), 2)
	must(t, err)
	none, err := l.Searches(ctx, now.Add(time.Second), 2)
	must(t, err)
	if len(lately) != 2 || len(none) != 0 || !lately[0].At.Equal(now) || lately[0].Caller != store.PrincipalHash("alice") {
		t.Errorf("the latest: %+v, and later: %+v", lately, none)
	}
	text, args := store.SearchesStatement(now, 10)
	if plan := Plan(t, s, text, args...); !strings.Contains(plan, "search_pairs_at") {
		t.Errorf("searches are read without an index:\n%s", plan)
	}
	known, err := l.Pairs(ctx, one)
	must(t, err)
	list := known.Pairs
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
	learned(t, l, one, other)
	forgotten, err := l.Forget(ctx, one)
	must(t, err)
	models, err := l.Models(ctx)
	must(t, err)
	rest, err := l.Pairs(ctx, other)
	must(t, err)
	if forgotten != len(list) || len(models) != 1 || models[0].Tenant != other || len(rest.Pairs) != 1 {
		t.Errorf("%d pairs are forgotten, and %d models and %d pairs are left", forgotten, len(models), len(rest.Pairs))
	}
	// What was on its way does not come back.
	if err := l.PutModel(ctx, &known, []byte("of what was forgotten")); !errors.Is(err, store.ErrForgotten) {
		t.Errorf("a model of what was forgotten is kept: %v", err)
	}
	late := pair(one, "alice", "s__x", "from before", -time.Minute)
	late.Searched = now
	must(t, l.Add(ctx, []store.SearchPair{late, pair(one, "alice", "s__x", "new", -time.Minute)}))
	after, err := l.Pairs(ctx, one)
	must(t, err)
	if len(after.Pairs) != 1 || after.Pairs[0].Query != "new" {
		t.Errorf("after it was forgotten: %+v", after.Pairs)
	}
	must(t, l.PutModel(ctx, &after, []byte("third")))
	must(t, l.Prune(ctx, now.Add(store.SearchPairsKept+time.Hour)))
	models, err = l.Models(ctx)
	must(t, err)
	if len(models) != 0 {
		t.Errorf("%d models outlive all searches", len(models))
	}
}

// learned keeps models of two tenants.
func learned(t *testing.T, l *store.Learning, one, other string) {
	ctx := t.Context()
	put := func(tenant, model string) {
		of, err := l.Pairs(ctx, tenant)
		must(t, err)
		must(t, l.PutModel(ctx, &of, []byte(model)))
	}
	put(one, "first")
	put(other, "of the other")
	before, _, err := l.Model(ctx, one)
	must(t, err)
	put(one, "second")
	second, ok, err := l.Model(ctx, one)
	must(t, err)
	if !ok || string(second.Model) != "second" || second.Version <= before.Version {
		t.Errorf("model: %+v, %v", second, ok)
	}
	recently(t, "TrainedAt", second.TrainedAt)
	before.Model = []byte("less of the first")
	must(t, l.Shorten(ctx, before))
	list, err := l.Models(ctx)
	must(t, err)
	if len(list) != 2 || list[0].Tenant != other || list[1].Version != second.Version {
		t.Errorf("models: %+v", list)
	}
	second.Model = []byte("less")
	must(t, l.Shorten(ctx, second))
	less, _, err := l.Model(ctx, one)
	must(t, err)
	if string(less.Model) != "less" || less.Version <= second.Version || !less.TrainedAt.Equal(second.TrainedAt) {
		t.Errorf("shortened: %+v", less)
	}
	less.Model = nil
	must(t, l.Shorten(ctx, less))
	if _, ok, err := l.Model(ctx, one); ok || err != nil {
		t.Errorf("a model of nothing is there: %v", err)
	}
	put(one, "second")
}
