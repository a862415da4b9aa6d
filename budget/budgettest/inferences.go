package budgettest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget"
)

// inferences runs fifty agents at once against limits that they cannot all keep within. At
// no moment is more used than a limit, and in the end exactly what was used is charged:
// nothing is lost, and all that was reserved and not used is back. Some turns end without
// an inference, and some use more than was reserved. Some are taken over by another gateway,
// which charges and settles them again.
func inferences(t *testing.T, s []budget.Store) {
	const agents, turns = 50, 6
	const most, tokenLimit, costLimit, ownLimit = 100, 9000, 5000, 4000
	at := Noon.Add(time.Minute)
	limiters := make([]*budget.Limiter, len(s))
	for i := range s {
		var err error
		limiters[i], err = budget.New(budget.Settings{
			Store: s[i], Clock: &budget.Clock{System: func() (time.Time, time.Duration) { return at, 0 }},
			Rules: []budget.Rule{
				{Name: "tokens", Per: budget.PerTenant, Unit: budget.Tokens, Limit: tokenLimit, Window: budget.Hour},
				{Name: "cost", Per: budget.PerTenant, Unit: budget.Cost, Limit: costLimit, Window: budget.Hour},
				{Name: "calls", Per: budget.PerTenant, Unit: budget.Calls, Limit: 0, Window: budget.Hour},
			},
			Agents: map[string]budget.Plan{"a": {Name: "a", Limits: map[budget.Unit]int64{budget.Tokens: ownLimit}, Window: budget.Hour}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var tokens, cost, own, refusals atomic.Int64 // what models used, and how often none was asked
	var all sync.WaitGroup
	for n := range agents {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(7, uint64(n)))
			agent := string(rune('a' + n%2)) // of which one has a budget of its own
			for turn := range turns {
				i := budget.Inference{
					Run: fmt.Sprint("run", n), Turn: turn, Begun: at, Keep: time.Hour, Tenant: "acme", Subject: "alice", Agent: agent,
					Tokens: most, LeastTokens: 20, Cost: most / 2, LeastCost: 10,
				}
				l := limiters[(n+turn)%len(limiters)]
				r, err := l.Infer(t.Context(), i)
				if _, refused := errors.AsType[*budget.Refusal](err); refused {
					refusals.Add(1)
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				within(t, r.Facts(most, most))
				room, _ := r.Tokens()
				money, _ := r.Cost()
				if room < i.LeastTokens || money < i.LeastCost {
					t.Errorf("room for %d tokens that cost %d", room, money)
				}
				if rnd.IntN(4) == 0 {
					again(t, limiters[(n+turn+1)%len(limiters)], i, room)
				}
				end := func(ctx context.Context) error { return r.Refund(ctx) }
				if rnd.IntN(5) > 0 {
					read, paid := rnd.Int64N(room+1), rnd.Int64N(money+1)
					if rnd.IntN(6) == 0 {
						read, paid = most+read, most+paid
					}
					tokens.Add(read)
					cost.Add(paid)
					if agent == "a" {
						own.Add(read)
					}
					end = func(ctx context.Context) error {
						if err := r.Settle(ctx, read, paid); err != nil || rnd.IntN(3) > 0 {
							return err
						}
						other, err := limiters[(n+turn+1)%len(limiters)].Infer(ctx, i)
						if err != nil {
							return err
						}
						return other.Settle(ctx, read, paid)
					}
				}
				if err := errors.Join(end(t.Context()), r.Settle(t.Context(), 0, 0)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	want(t, "tokens", used(t, s[0], "tokens", "tenant:acme"), tokens.Load())
	want(t, "cost", used(t, s[0], "cost", "tenant:acme"), cost.Load())
	want(t, "tokens of the agent", used(t, s[0], budget.PlanBudget, "agent:a"), own.Load())
	want(t, "calls", used(t, s[0], "calls", "tenant:acme"), 0)
	if refusals.Load() == 0 {
		t.Error("no turn is refused, so no limit is reached")
	}
}

// again charges an inference a second time, as a gateway that takes it over does.
func again(t *testing.T, l *budget.Limiter, i budget.Inference, room int64) {
	t.Helper()
	r, err := l.Infer(t.Context(), i)
	if err != nil {
		t.Error(err)
		return
	}
	if got, _ := r.Tokens(); got != room {
		t.Errorf("room for %d tokens, by the charge of another gateway for %d", room, got)
	}
}

// within requires that no limit is exceeded by what is charged at the moment.
func within(t *testing.T, facts []budget.Fact) {
	t.Helper()
	for _, f := range facts {
		if f.Used > f.Limit || f.Amount < 1 {
			t.Errorf("%d of %d are used of %s by %s", f.Used, f.Limit, f.Budget, f.Key)
		}
	}
}
