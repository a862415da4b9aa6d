package budget_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
)

// turn is a turn of the agent researcher for alice of acme.
func turn(n int) budget.Inference {
	return budget.Inference{
		Run: "run", Turn: n, Keep: time.Hour, Issuer: "https://id", Tenant: "acme", Subject: "alice", Persona: "bot",
		Agent: "researcher", Name: "agent__researcher", Tokens: 100, Cost: 10, LeastTokens: 30, LeastCost: 1,
	}
}

func infer(t *testing.T, l *budget.Limiter, i budget.Inference) *budget.InferenceReceipt {
	t.Helper()
	r, err := l.Infer(t.Context(), i)
	if err != nil {
		t.Fatalf("turn %d: %v", i.Turn, err)
	}
	return r
}

// An inference is charged to its caller and to its agent, in tokens and cost, and what it
// does not use is given back.
func TestInferenceIsReservedAndSettled(t *testing.T) {
	store := new(budgettest.Memory)
	named := rule("named", budget.PerTenant, budget.Tokens, 1000)
	named.Match = func(name string) bool { return name == "agent__researcher" }
	other := rule("other", budget.PerTenant, budget.Tokens, 0)
	other.Match = func(name string) bool { return strings.HasPrefix(name, "gh__") }
	l := newLimiter(t, budget.Settings{
		Store: store,
		Rules: []budget.Rule{
			rule("money", budget.PerSubject, budget.Cost, 25), rule("tokens", budget.PerPersona, budget.Tokens, 1000),
			rule("per agent", budget.PerAgent, budget.Tokens, 1000), rule("calls", budget.PerTenant, budget.Calls, 0),
			rule("servers", budget.PerServer, budget.Cost, 0), named, other,
		},
		Agents: map[string]budget.Plan{
			"researcher": {Name: "researcher", Limits: map[budget.Unit]int64{budget.Tokens: 250}, Window: budget.Day},
			"free":       {Name: "free"},
		},
	})
	first, second := infer(t, l, turn(0)), infer(t, l, turn(1))
	reserved := func(tokens, cost, own int64) map[string]int64 {
		return map[string]int64{
			"money subject:https:%2F%2Fid/acme/alice cost/day": cost, "tokens persona:acme/bot tokens/day": tokens,
			"per agent agent:researcher tokens/day": tokens, "named tenant:acme tokens/day": tokens, "plan agent:researcher tokens/day": own,
		}
	}
	wantUsed(t, store, reserved(200, 20, 200))
	third := infer(t, l, turn(2)) // takes what is left
	if tokens, bounded := third.Tokens(); tokens != 50 || !bounded {
		t.Errorf("room for %d tokens", tokens)
	}
	if cost, bounded := third.Cost(); cost != 5 || !bounded {
		t.Errorf("room for a cost of %d", cost)
	}
	if err := errors.Join(first.Settle(t.Context(), 80, 4), second.Refund(t.Context()), third.Settle(t.Context(), 70, 7)); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, store, reserved(150, 11, 150)) // the third has used more than was left
	if err := errors.Join(first.Refund(t.Context()), second.Settle(t.Context(), 1, 1), third.Settle(t.Context(), 70, 7)); err != nil {
		t.Fatal(err)
	}
	if err := infer(t, l, turn(2)).Settle(t.Context(), 70, 7); err != nil { // by another gateway
		t.Fatal(err)
	}
	wantUsed(t, store, reserved(150, 11, 150))
	facts := first.Facts(80, 4)
	if len(facts) != 5 || facts[0].Budget != "plan" || facts[0].Amount != 80 || facts[0].Limit != 250 || facts[1].Amount != 4 {
		t.Errorf("facts: %+v", facts)
	}
	if low := infer(t, l, turn(3)).Warnings(100, 1); len(low) != 1 || low[0].Budget != "plan" || low[0].Used != 250 {
		t.Errorf("warned of %+v", low)
	}
	limit, unit, known := l.Limit(budget.Counter{Budget: "plan", Measure: "tokens/day", Key: "agent:researcher"})
	if limit != 250 || unit != budget.Tokens || !known {
		t.Errorf("the agent's limit is %d %s, %t", limit, unit, known)
	}
	free := turn(0)
	free.Run, free.Agent, free.Persona = "free", "free", ""
	infer(t, l, free) // is counted without a limit
	if got := used(t, store)["plan agent:free tokens/month"]; got != 100 {
		t.Errorf("%d tokens of an agent without limits are counted", got)
	}
}

// The agent's calls of tools count for the agent as well, and others' do not.
func TestAgentsCallsCountForIt(t *testing.T) {
	store := new(budgettest.Memory)
	l := newLimiter(t, budget.Settings{Store: store, Agents: map[string]budget.Plan{
		"researcher": {Name: "researcher", Limits: map[budget.Unit]int64{budget.Calls: 1, budget.Tokens: 10}},
	}})
	own := call("1")
	own.Agent = "researcher"
	charge(t, l, own)
	charge(t, l, call("2"))
	wantUsed(t, store, map[string]int64{"plan agent:researcher calls/month": 1})
	own.CallID = "3"
	_, err := l.Charge(t.Context(), own)
	const hint = "the budget of the agent researcher allows 1 call a month; wait until it resets, or ask the operator for more"
	if r, refused := errors.AsType[*budget.Refusal](err); !refused || r.Hint != hint {
		t.Errorf("%v: %+v", err, r)
	}
}

func TestRefusalOfAnInference(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*budget.Inference)
		want   string
	}{
		"more than there is":  {func(i *budget.Inference) { i.Tokens, i.LeastTokens = 600, 0 }, "it allows 500 tokens a day, and this turn of the model alone may take more"},
		"more than is left":   {func(i *budget.Inference) { i.Tokens, i.LeastTokens = 400, 300 }, "it allows 500 tokens a day; turns that run hold what they may still use, so that some may be free again when they end"},
		"with what is left":   {func(i *budget.Inference) { i.Tokens, i.LeastTokens = 400, 200 }, ""},
		"more money than all": {func(i *budget.Inference) { i.Cost, i.LeastCost = 41, 0 }, "it allows 40 cost units a day, and this turn of the model alone may take more"},
	} {
		l := newLimiter(t, budget.Settings{Rules: []budget.Rule{
			rule("tokens", budget.PerTenant, budget.Tokens, 500), rule("money", budget.PerTenant, budget.Cost, 40),
		}})
		first := turn(0)
		first.Tokens, first.Cost = 250, 1
		infer(t, l, first)
		next := turn(1)
		tc.change(&next)
		_, err := l.Infer(t.Context(), next)
		r, refused := errors.AsType[*budget.Refusal](err)
		if refused != (tc.want != "") || refused && r.Hint != tc.want {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
	for _, bad := range []budget.Inference{{Run: "r"}, {Tokens: 1}, {Run: "r", Tokens: budget.MaxAmount + 1}} {
		l := newLimiter(t, budget.Settings{Rules: []budget.Rule{rule("tokens", budget.PerTenant, budget.Tokens, 500)}})
		if _, err := l.Infer(t.Context(), bad); err == nil {
			t.Errorf("%+v is charged", bad)
		}
	}
	if _, err := new(budget.Limiter).Infer(t.Context(), turn(0)); !errors.Is(err, budget.ErrNoLimiter) {
		t.Error(err)
	}
	r := infer(t, budget.Unlimited(), turn(0))
	_, tokens := r.Tokens()
	_, cost := r.Cost()
	if err := errors.Join(r.Settle(t.Context(), 1, 1), r.Refund(t.Context())); err != nil || r.Charged() || tokens || cost || r.Facts(1, 1) != nil || r.Warnings(1, 1) != nil {
		t.Errorf("an inference without budgets is bounded: %v", err)
	}
}

// A gateway that takes over a turn, in the next window, settles what the first one has
// reserved, and in the window in which that was done. A call with the id of the run is
// another charge.
func TestInferenceThatIsTakenOver(t *testing.T) {
	store, noon := new(budgettest.Memory), &clock{now: budgettest.Noon}
	limiter := func() *budget.Limiter {
		return newLimiter(t, budget.Settings{
			Store: store, Clock: noon.clock(),
			Rules: []budget.Rule{{Name: "b", Per: budget.PerTenant, Unit: budget.Tokens, Limit: 150, Window: budget.Hour}, rule("calls", budget.PerTenant, budget.Calls, 5)},
		})
	}
	one := turn(0)
	one.Begun = budgettest.Noon
	infer(t, limiter(), one)
	charge(t, limiter(), call(one.Run))
	noon.now = noon.now.Add(90 * time.Minute)
	second := limiter()
	r := infer(t, second, one)
	if tokens, _ := r.Tokens(); tokens != 100 {
		t.Errorf("room for %d tokens", tokens)
	}
	for range 2 {
		if err := r.Settle(t.Context(), 40, 0); err != nil {
			t.Fatal(err)
		}
		r = infer(t, second, one) // is settled, and stays so
	}
	wantUsed(t, store, map[string]int64{"b tenant:acme tokens/hour": 40, "calls tenant:acme calls/day": 1})
	next := turn(1)
	next.Begun = noon.now
	infer(t, second, next)
	list, err := store.Usage(t.Context(), noon.now, budget.Filter{Budget: "b"}, 10)
	if got := fmt.Sprint(len(list), list[0].Used); err != nil || got != "1 100" {
		t.Errorf("in the next window: %s, %v", got, err)
	}
}

func TestPlanSettingsKnowTokens(t *testing.T) {
	tokens := int64(7)
	plan, err := (&budget.PlanSettings{Tokens: &tokens, Window: "day"}).Plan("researcher")
	want := budget.Plan{Name: "researcher", Window: budget.Day, Limits: map[budget.Unit]int64{budget.Tokens: 7}}
	if diff := cmp.Diff(want.Limits, plan.Limits); err != nil || diff != "" || plan.Name != want.Name || plan.Window != want.Window {
		t.Errorf("%+v, %v", plan, err)
	}
}
