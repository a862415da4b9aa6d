package budget_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
)

// clock shows a time that a test sets.
type clock struct{ now time.Time }

func (c *clock) clock() *budget.Clock {
	began := c.now
	return &budget.Clock{System: func() (time.Time, time.Duration) { return c.now, c.now.Sub(began) }}
}

// call is a call of alice of acme.
func call(id string) budget.Usage {
	return budget.Usage{
		CallID: id, Tool: true, Issuer: "https://id", Tenant: "acme", Subject: "alice", Persona: "bot",
		Name: "gh__search", Server: "github", Original: "search", Bytes: 1000, Time: time.Minute,
	}
}

func newLimiter(t *testing.T, s budget.Settings) *budget.Limiter {
	t.Helper()
	if s.Store == nil {
		s.Store = new(budgettest.Memory)
	}
	if s.Clock == nil {
		s.Clock = (&clock{budgettest.Noon}).clock()
	}
	l, err := budget.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func rule(name string, per budget.Per, unit budget.Unit, limit int64) budget.Rule {
	return budget.Rule{Name: name, Per: per, Unit: unit, Limit: limit, Window: budget.Day}
}

// used returns the usage by "budget key".
func used(t *testing.T, s budget.Store) map[string]int64 {
	t.Helper()
	list, err := s.Usage(t.Context(), budgettest.Noon, budget.Filter{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	for _, b := range list {
		got[b.Budget+" "+b.Key+" "+b.Measure] = b.Used
	}
	return got
}

func wantUsed(t *testing.T, s budget.Store, want map[string]int64) {
	t.Helper()
	if diff := cmp.Diff(want, used(t, s)); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}

func charge(t *testing.T, l *budget.Limiter, u budget.Usage) *budget.Receipt {
	t.Helper()
	r, err := l.Charge(t.Context(), u)
	if err != nil {
		t.Fatalf("charge %s: %v", u.CallID, err)
	}
	return r
}

func TestZeroLimiterRefuses(t *testing.T) {
	for name, l := range map[string]*budget.Limiter{"nil": nil, "zero": {}} {
		if _, err := l.Charge(t.Context(), call("c")); !errors.Is(err, budget.ErrNoLimiter) {
			t.Errorf("%s: %v, want ErrNoLimiter", name, err)
		}
	}
	if _, err := budget.New(budget.Settings{}); err == nil {
		t.Error("a limiter without a store is made")
	}
}

func TestUnlimitedAllows(t *testing.T) {
	r := charge(t, budget.Unlimited(), call("c"))
	if r.Charged() || budget.Unlimited().Charges() || !new(budget.Limiter).Charges() || !(*budget.Limiter)(nil).Charges() {
		t.Error("it is not said who charges")
	}
	_, bytes := r.Bytes()
	_, seconds := r.Time()
	if bytes || seconds || r.Facts(1, 1) != nil || r.Warnings(1, 1) != nil {
		t.Error("a call without budgets is bounded")
	}
	if err := errors.Join(r.Settle(t.Context(), 1, 1), r.Refund(t.Context())); err != nil {
		t.Error(err)
	}
}

// What counts, in which unit (the table of ADR 0022).
func TestWhatCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*budget.Usage)
		want   map[string]int64 // by unit, before it is settled
	}{
		"call":       {func(*budget.Usage) {}, map[string]int64{"calls": 1, "cost": 1, "bytes": 1000, "seconds": 60_000}},
		"cost":       {func(u *budget.Usage) { u.Cost = 7 }, map[string]int64{"calls": 1, "cost": 7, "bytes": 1000, "seconds": 60_000}},
		"next round": {func(u *budget.Usage) { u.Round, u.Later = 2, true }, map[string]int64{"bytes": 1000, "seconds": 60_000}},
		"no tool":    {func(u *budget.Usage) { u.Tool = false }, map[string]int64{"bytes": 1000, "seconds": 60_000}},
		"inference":  {func(u *budget.Usage) { u.Tokens, u.Cost = 40, 3 }, map[string]int64{"tokens": 40, "cost": 3}},
		"no price":   {func(u *budget.Usage) { u.Tokens = 40 }, map[string]int64{"tokens": 40}},
	} {
		store := new(budgettest.Memory)
		l := newLimiter(t, budget.Settings{Store: store, Rules: []budget.Rule{
			rule("calls", budget.PerTenant, budget.Calls, 100), rule("cost", budget.PerTenant, budget.Cost, 100),
			rule("bytes", budget.PerTenant, budget.Bytes, 100_000), rule("seconds", budget.PerTenant, budget.Seconds, 1000),
			rule("tokens", budget.PerTenant, budget.Tokens, 100),
		}})
		u := call("c")
		tc.change(&u)
		charge(t, l, u)
		want := make(map[string]int64)
		for unit, n := range tc.want {
			want[unit+" tenant:acme "+unit+"/day"] = n
		}
		if diff := cmp.Diff(want, used(t, store)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOwners(t *testing.T) {
	store := new(budgettest.Memory)
	var rules []budget.Rule
	for _, per := range budget.Pers {
		rules = append(rules, rule(string(per), per, budget.Calls, 100))
	}
	matched := rule("matched", budget.PerTenant, budget.Calls, 100)
	matched.Match = func(name string) bool { return strings.HasPrefix(name, "files__") }
	l := newLimiter(t, budget.Settings{Store: store, Rules: append(rules, matched)})
	first := call("1")
	first.Class, first.Agent = func() string { return "write" }, "researcher"
	charge(t, l, first)
	second := call("2") // of another issuer, without a persona, and of nothing known
	second.Issuer, second.Persona, second.Name = "https://other", "", "files__read"
	charge(t, l, second)
	wantUsed(t, store, map[string]int64{
		"subject subject:https:%2F%2Fid/acme/alice calls/day":    1,
		"subject subject:https:%2F%2Fother/acme/alice calls/day": 1,
		"persona persona:acme/bot calls/day":                     1,
		"tenant tenant:acme calls/day":                           2,
		"server server:github calls/day":                         2,
		"tool tool:github/search calls/day":                      2,
		"class class:write calls/day":                            1,
		"agent agent:researcher calls/day":                       1,
		"matched tenant:acme calls/day":                          1,
	})
	for key, want := range map[string][]string{
		"subject:https:%2F%2Fid/acme/alice": {"https://id", "acme", "alice"},
		"class:write":                       {"write"},
		"agent:researcher":                  {"researcher"},
		"persona:a%2Fb/c%25":                {"a/b", "c%"},
		"tenant:":                           {""},
	} {
		per, parts := budget.Owner(key)
		if string(per)+":" != key[:len(per)+1] || !slices.Equal(parts, want) {
			t.Errorf("%s is %s %q", key, per, parts)
		}
	}
}

// No two owners share a counter, whatever their names.
func FuzzKeysAreApart(f *testing.F) {
	f.Add("a", "b", "c", "a", "b/c", "")
	f.Add("", "", "", "%", "/", "\x00")
	f.Add(strings.Repeat("a", 600), "b", strings.Repeat("c", 600), strings.Repeat("a", 600), "b", strings.Repeat("c", 599)+"d")
	f.Fuzz(func(t *testing.T, a, b, c, d, e, g string) {
		store := new(budgettest.Memory)
		l := newLimiter(t, budget.Settings{Store: store, Rules: []budget.Rule{
			rule("s", budget.PerSubject, budget.Calls, 1), rule("p", budget.PerPersona, budget.Calls, 1), rule("t", budget.PerTool, budget.Calls, 1),
		}})
		one, other := call("1"), call("2")
		one.Issuer, one.Tenant, one.Subject, one.Persona, one.Server, one.Original = a, b, c, c, a, b
		other.Issuer, other.Tenant, other.Subject, other.Persona, other.Server, other.Original = d, e, g, g, d, e
		charge(t, l, one)
		_, err := l.Charge(t.Context(), other)
		same := a == d && b == e && c == g || b == e && c == g && c != "" || a == d && b == e
		if (err != nil) != same {
			t.Errorf("%q %q %q and %q %q %q: %v; want the same owner: %t", a, b, c, d, e, g, err, same)
		}
	})
}

func plans() map[string]budget.Plan {
	limits := func(calls int64) map[budget.Unit]int64 { return map[budget.Unit]int64{budget.Calls: calls} }
	return map[string]budget.Plan{
		"free": {Name: "free", Limits: limits(2)}, "team": {Name: "team", Limits: limits(4)}, "enterprise": {Name: "enterprise"},
	}
}

func TestPlans(t *testing.T) {
	for name, tc := range map[string]struct {
		tenants   map[string]budget.Tenant
		plan      string // of the credential
		want      int    // calls
		usedAfter map[string]int64
	}{
		"of the tenant":                {map[string]budget.Tenant{"acme": {Plan: "team"}}, "", 4, map[string]int64{"tenant:acme": 4}},
		"of every tenant":              {map[string]budget.Tenant{"*": {Plan: "free"}}, "", 2, map[string]int64{"tenant:acme": 2}},
		"its own beats everyone's":     {map[string]budget.Tenant{"*": {Plan: "free"}, "acme": {Plan: "team"}}, "", 4, map[string]int64{"tenant:acme": 4}},
		"its own may be none":          {map[string]budget.Tenant{"*": {Plan: "free"}, "acme": {}}, "", 6, map[string]int64{}},
		"a credential lowers":          {map[string]budget.Tenant{"acme": {Plan: "team"}}, "free", 2, map[string]int64{"tenant:acme": 2, "subject:https:%2F%2Fid/acme/alice": 2}},
		"a credential does not raise":  {map[string]budget.Tenant{"acme": {Plan: "free"}}, "team", 2, map[string]int64{"tenant:acme": 2, "subject:https:%2F%2Fid/acme/alice": 2}},
		"nor does an unlimited one":    {map[string]budget.Tenant{"acme": {Plan: "free"}}, "enterprise", 2, map[string]int64{"tenant:acme": 2}},
		"of the credential alone":      {nil, "free", 2, map[string]int64{"subject:https:%2F%2Fid/acme/alice": 2}},
		"unlimited is counted":         {map[string]budget.Tenant{"acme": {Plan: "enterprise"}}, "", 6, map[string]int64{"tenant:acme": 6}},
		"none at all is not":           {nil, "", 6, map[string]int64{}},
		"another tenant's is its own":  {map[string]budget.Tenant{"other": {Plan: "free"}}, "", 6, map[string]int64{}},
		"an unknown one calls nothing": {nil, "gold", 0, map[string]int64{}},
	} {
		store := new(budgettest.Memory)
		l := newLimiter(t, budget.Settings{Store: store, Plans: plans(), Tenants: tc.tenants})
		granted := 0
		for i := range 6 {
			u := call(fmt.Sprint(i))
			u.Plan = tc.plan
			if _, err := l.Charge(t.Context(), u); err == nil {
				granted++
			} else if (tc.plan == "gold") != errors.Is(err, budget.ErrPlan) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if granted != tc.want {
			t.Errorf("%s: %d calls, want %d", name, granted, tc.want)
		}
		want := make(map[string]int64)
		for key, n := range tc.usedAfter {
			want["plan "+key+" calls/month"] = n
		}
		if diff := cmp.Diff(want, used(t, store)); diff != "" {
			t.Errorf("%s: used (-want +got):\n%s", name, diff)
		}
	}
}

// A change of plan keeps the usage and takes effect at once; so do changes of windows
// and zones, each in its way.
func TestChangesKeepWhatWasUsed(t *testing.T) {
	store, now := new(budgettest.Memory), &clock{time.Date(2026, 11, 30, 22, 30, 0, 0, time.UTC)}
	with := func(s budget.Settings) *budget.Limiter {
		s.Store, s.Clock, s.Plans = store, now.clock(), plans()
		return newLimiter(t, s)
	}
	team := with(budget.Settings{Tenants: map[string]budget.Tenant{"acme": {Plan: "team"}}})
	for i := range 3 {
		charge(t, team, call(fmt.Sprint("team", i)))
	}
	free := with(budget.Settings{Tenants: map[string]budget.Tenant{"acme": {Plan: "free"}}})
	_, err := free.Charge(t.Context(), call("free"))
	if r, ok := errors.AsType[*budget.Refusal](err); !ok || r.Used != 3 || r.Limit != 2 {
		t.Errorf("after a smaller plan: %v", err)
	}
	paris := with(budget.Settings{Tenants: map[string]budget.Tenant{"acme": {Plan: "team", Zone: zone(t, "Europe/Paris")}}})
	charge(t, paris, call("paris"))
	if _, err := paris.Charge(t.Context(), call("paris2")); err == nil {
		t.Error("a change of zone gives a second budget")
	}
	now.now = now.now.Add(time.Hour) // December in Paris, November in UTC
	paris = with(budget.Settings{Tenants: map[string]budget.Tenant{"acme": {Plan: "team", Zone: zone(t, "Europe/Paris")}}})
	charge(t, paris, call("december"))
	if _, err := paris.Charge(t.Context(), call("december2")); err == nil {
		t.Error("the end of a month in the new zone forgets what was used in the month of the old one")
	}
	now.now = now.now.Add(time.Hour)
	paris = with(budget.Settings{Tenants: map[string]budget.Tenant{"acme": {Plan: "team", Zone: zone(t, "Europe/Paris")}}})
	for i := range 3 {
		charge(t, paris, call(fmt.Sprint("both", i)))
	}
	if _, err := paris.Charge(t.Context(), call("both3")); err == nil {
		t.Error("what was used in December is forgotten")
	}
}

// Setting the clock back within a process, over the end of a month, gives no second
// budget; neither does a clock that was ahead.
func TestClockSetBackGivesNoSecondBudget(t *testing.T) {
	store := new(budgettest.Memory)
	elapsed, shown := time.Duration(0), time.Date(2026, 11, 1, 0, 10, 0, 0, time.UTC)
	c := &budget.Clock{System: func() (time.Time, time.Duration) { return shown, elapsed }}
	hour := budget.Rule{Name: "b", Per: budget.PerTenant, Unit: budget.Calls, Limit: 2}
	for _, w := range []string{"hour", "day", "month", "sliding:1h"} {
		window, err := budget.ParseWindow(w)
		if err != nil {
			t.Fatal(err)
		}
		hour.Name, hour.Window = strings.ReplaceAll(w, ":", ""), window
		l := newLimiter(t, budget.Settings{Store: store, Clock: c, Rules: []budget.Rule{hour}})
		granted := 0
		for i := range 40 {
			if i%4 == 3 {
				shown = shown.Add(-25 * time.Minute) // into October, and further
			} else {
				elapsed += time.Second
				shown = shown.Add(time.Second)
			}
			if _, err := l.Charge(t.Context(), call(fmt.Sprint(w, i))); err == nil {
				granted++
			}
		}
		if granted != 2 {
			t.Errorf("%s: %d calls of 2", w, granted)
		}
	}
}

// Look returns what a charge would, without charging.
func TestLook(t *testing.T) {
	store := new(budgettest.Memory)
	l := newLimiter(t, budget.Settings{Store: store, Rules: []budget.Rule{
		rule("calls", budget.PerSubject, budget.Calls, 3), rule("seen", budget.PerTenant, budget.Calls, budget.NoLimit), rule("bytes", budget.PerTenant, budget.Bytes, 2500),
	}})
	for i := range 4 {
		before := used(t, store)
		for range 2 {
			standings, err := l.Look(t.Context(), call("why"))
			if refusal, refused := errors.AsType[*budget.Refusal](err); refused != (i == 3) || refused && (refusal.Budget != "calls" || refusal.Used != 3 || refusal.Hint == "") {
				t.Errorf("before call %d: %v", i, err)
			}
			if s := standings[0]; s.Budget != "calls" || s.Used != int64(i) || s.Limit != 3 || !s.ResetAt.After(budgettest.Noon) {
				t.Errorf("before call %d: %+v", i, s)
			}
		}
		wantUsed(t, store, before)
		if _, err := l.Charge(t.Context(), call(strconv.Itoa(i))); (err == nil) != (i < 3) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if standings, err := budget.Unlimited().Look(t.Context(), call("x")); standings != nil || err != nil {
		t.Errorf("%+v, %v", standings, err)
	}
	for _, none := range []*budget.Limiter{nil, {}} {
		if _, err := none.Look(t.Context(), call("x")); !errors.Is(err, budget.ErrNoLimiter) {
			t.Error(err)
		}
	}
}

func TestReservations(t *testing.T) {
	store := new(budgettest.Memory)
	l := newLimiter(t, budget.Settings{Store: store, Rules: []budget.Rule{
		rule("calls", budget.PerTenant, budget.Calls, 100),
		rule("bytes", budget.PerTenant, budget.Bytes, 1500), rule("seconds", budget.PerTenant, budget.Seconds, 90),
	}})
	room := func(r *budget.Receipt, bytes int64, took time.Duration) {
		t.Helper()
		b, is := r.Bytes()
		d, too := r.Time()
		if b != bytes || d != took || !is || !too {
			t.Errorf("room for %d bytes and %s, want %d and %s", b, d, bytes, took)
		}
	}
	first := charge(t, l, call("1"))
	room(first, 1000, time.Minute)
	second := charge(t, l, call("2"))
	room(second, 500, 30*time.Second)
	_, err := l.Charge(t.Context(), call("3"))
	r, ok := errors.AsType[*budget.Refusal](err)
	if !ok || r.Budget != "bytes" || r.Used != 1500 || !strings.Contains(r.Hint, "calls that run") {
		t.Fatalf("a third call: %v", err)
	}
	if err := first.Settle(t.Context(), 300, 1500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, store, map[string]int64{"calls tenant:acme calls/day": 2, "bytes tenant:acme bytes/day": 800, "seconds tenant:acme seconds/day": 31_500})
	if err := second.Refund(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := map[string]int64{"calls tenant:acme calls/day": 1, "bytes tenant:acme bytes/day": 300, "seconds tenant:acme seconds/day": 1500}
	wantUsed(t, store, after)
	// Only the first end counts.
	if err := errors.Join(first.Refund(t.Context()), second.Settle(t.Context(), 500, time.Second), first.Settle(t.Context(), 0, 0)); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, store, after)
	want := []budget.Fact{
		{Budget: "calls", Key: "tenant:acme", Unit: "calls", Amount: 1, Used: 1, Limit: 100},
		{Budget: "bytes", Key: "tenant:acme", Unit: "bytes", Amount: 300, Used: 300, Limit: 1500},
		{Budget: "seconds", Key: "tenant:acme", Unit: "seconds", Amount: 2, Used: 2, Limit: 90},
	}
	got := first.Facts(300, 1500*time.Millisecond)
	for i := range got {
		if got[i].ResetAt.IsZero() {
			t.Errorf("no reset in %+v", got[i])
		}
		got[i].ResetAt = time.Time{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if r := second.Spent(budget.Bytes); r.Budget != "bytes" || r.Limit != 1500 {
		t.Errorf("what a larger result is refused by: %+v", r)
	}
}

func TestWarnings(t *testing.T) {
	var events []budget.Event
	store := new(budgettest.Memory)
	l := newLimiter(t, budget.Settings{
		Store: store, Rules: []budget.Rule{rule("calls", budget.PerTenant, budget.Calls, 5), rule("bytes", budget.PerTenant, budget.Bytes, 1250), rule("none", budget.PerTenant, budget.Calls, budget.NoLimit)},
		Observe: func(e budget.Event) { events = append(events, e) },
	})
	for i, want := range []string{"", "", "", "calls 4/5", "calls 5/5 bytes 1000/1250"} {
		r := charge(t, l, call(fmt.Sprint(i)))
		text := ""
		for _, f := range r.Warnings(200, time.Second) {
			text += fmt.Sprintf(" %s %d/%d", f.Budget, f.Used, f.Limit)
		}
		if strings.TrimSpace(text) != want {
			t.Errorf("call %d: warned of%s, want %s", i+1, text, want)
		}
		if err := r.Settle(t.Context(), 200, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Charge(t.Context(), call("6")); err == nil {
		t.Error("a sixth call of five")
	}
	seen := make(map[string]int)
	for _, e := range events {
		seen[fmt.Sprintf("%s %s %d", e.Budget, e.Outcome, e.Warned)]++
	}
	want := map[string]int{"calls granted 0": 3, "calls granted 80": 1, "calls granted 100": 1, "bytes granted 0": 5, "none granted 0": 5, "calls refused 0": 1}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestStoreDown(t *testing.T) {
	down := errors.New("down")
	for name, tc := range map[string]struct {
		rules   []budget.Rule
		tenant  string
		want    error
		outcome budget.Outcome
	}{
		"limited":            {nil, "team", budget.ErrStore, budget.Unavailable},
		"unlimited":          {nil, "enterprise", nil, budget.Passed},
		"unlimited but here": {[]budget.Rule{rule("b", budget.PerTenant, budget.Calls, 1000)}, "enterprise", budget.ErrStore, budget.Unavailable},
	} {
		var events []budget.Event
		l := newLimiter(t, budget.Settings{
			Store: &budgettest.Memory{Fail: func() error { return down }}, Rules: tc.rules, Plans: plans(),
			Tenants: map[string]budget.Tenant{"acme": {Plan: tc.tenant}}, Observe: func(e budget.Event) { events = append(events, e) },
		})
		r, err := l.Charge(t.Context(), call("c"))
		if !errors.Is(err, tc.want) || tc.want != nil && !errors.Is(err, down) || (r == nil) != (tc.want != nil) {
			t.Errorf("%s: %v, %v; want %v", name, r, err, tc.want)
		}
		for _, e := range events {
			if e.Outcome != tc.outcome {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if len(events) == 0 {
			t.Errorf("%s: nothing is counted", name)
		}
		if r != nil {
			if err := r.Settle(t.Context(), 1, 1); err != nil {
				t.Errorf("%s: settle what was not charged: %v", name, err)
			}
		}
	}
}

func TestRefusalSaysWhatToDo(t *testing.T) {
	l := newLimiter(t, budget.Settings{
		Plans: map[string]budget.Plan{"free": {Name: "free", Limits: map[budget.Unit]int64{budget.Calls: 0}}},
		Rules: []budget.Rule{rule("dear", budget.PerTenant, budget.Cost, 5)},
	})
	own, dear := call("1"), call("2")
	own.Plan, dear.Cost = "free", 6
	for _, tc := range []struct {
		usage budget.Usage
		want  string
	}{
		{own, "the plan free of this credential allows 0 calls a month"},
		{dear, "it allows 5 cost units a day, and this call alone takes more"},
	} {
		_, err := l.Charge(t.Context(), tc.usage)
		if r, ok := errors.AsType[*budget.Refusal](err); !ok || r.Hint != tc.want || r.ResetAt.IsZero() {
			t.Errorf("%v, %+v; want the hint %q", err, r, tc.want)
		}
	}
}

func TestBadSettings(t *testing.T) {
	good := rule("b", budget.PerTenant, budget.Calls, 1)
	for name, s := range map[string]budget.Settings{
		"name twice":     {Rules: []budget.Rule{good, good}},
		"name of plans":  {Rules: []budget.Rule{rule(budget.PlanBudget, budget.PerTenant, budget.Calls, 1)}},
		"no name":        {Rules: []budget.Rule{rule("", budget.PerTenant, budget.Calls, 1)}},
		"no owner":       {Rules: []budget.Rule{rule("b", "", budget.Calls, 1)}},
		"tokens of tool": {Rules: []budget.Rule{rule("b", budget.PerTool, budget.Tokens, 1)}},
		"no unit":        {Rules: []budget.Rule{rule("b", budget.PerTenant, "", 1)}},
		"no window":      {Rules: []budget.Rule{{Name: "b", Per: budget.PerTenant, Unit: budget.Calls, Limit: 1}}},
		"limit below":    {Rules: []budget.Rule{rule("b", budget.PerTenant, budget.Calls, -2)}},
		"limit above":    {Rules: []budget.Rule{rule("b", budget.PerTenant, budget.Seconds, budget.MaxAmount)}},
		"unknown plan":   {Tenants: map[string]budget.Tenant{"acme": {Plan: "gold"}}},
		"too many rules": {Rules: slices.Collect(maps.Values(manyRules(budget.MaxCharges)))},
	} {
		s.Store = new(budgettest.Memory)
		if _, err := budget.New(s); err == nil {
			t.Errorf("%s: a limiter is made", name)
		}
	}
}

func manyRules(n int) map[string]budget.Rule {
	all := make(map[string]budget.Rule, n)
	for i := range n {
		name := fmt.Sprint("b", i)
		all[name] = rule(name, budget.PerTenant, budget.Calls, 1)
	}
	return all
}

func TestLimits(t *testing.T) {
	store := new(budgettest.Memory)
	l := newLimiter(t, budget.Settings{
		Store: store, Plans: plans(), Tenants: map[string]budget.Tenant{"*": {Plan: "free"}},
		Rules: []budget.Rule{rule("b", budget.PerServer, budget.Seconds, 90)},
	})
	charge(t, l, call("1"))
	list, err := store.Usage(context.Background(), budgettest.Noon, budget.Filter{}, 10)
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	for i, want := range []string{"90 seconds true", "2 calls true"} {
		limit, unit, ok := l.Limit(list[i].Counter)
		if got := fmt.Sprint(limit, " ", unit, " ", ok); got != want {
			t.Errorf("%v: %s, want %s", list[i].Counter, got, want)
		}
	}
	for _, c := range []budget.Counter{
		{Budget: "b", Measure: "calls/day", Key: "server:github"},
		{Budget: "gone", Measure: "seconds/day", Key: "server:github"},
		{Budget: "plan", Measure: "calls/month", Key: "subject:a/b/c"},
		{Budget: "plan", Measure: "cost/month", Key: "tenant:acme"},
	} {
		if _, _, ok := l.Limit(c); ok {
			t.Errorf("%v has a limit", c)
		}
	}
	if u, w := budget.ParseMeasure("seconds/sliding:1h"); u != budget.Seconds || w.String() != "sliding:1h" {
		t.Errorf("measure read as %s, %s", u, w)
	}
	if u, _ := budget.ParseMeasure("apples/day"); u != "" {
		t.Errorf("unknown measure read as %s", u)
	}
}

// A tool that was renamed because of a case collision counts under both names.
func TestMatchByAnyName(t *testing.T) {
	t.Parallel()
	store := new(budgettest.Memory)
	matched := rule("matched", budget.PerTenant, budget.Calls, 1)
	matched.Match = func(name string) bool { return name == "files__read" }
	l := newLimiter(t, budget.Settings{Store: store, Rules: []budget.Rule{matched}})
	renamed := call("1")
	renamed.Name, renamed.Unsuffixed = "files__READ_abcdefg", "files__read"
	charge(t, l, renamed)
	again := call("2")
	again.Name, again.Unsuffixed = renamed.Name, renamed.Unsuffixed
	if _, err := l.Charge(t.Context(), again); err == nil {
		t.Error("a second call of a budget of one is granted")
	}
}
