package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	_ "time/tzdata" // the zones of windows are the same on every machine

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/operate"
	"github.com/toolgate/toolgate/internal/failure"
)

// budgets are what a gateway keeps of budgets from one configuration to the next.
type budgets struct {
	Store   budget.Store
	Clock   budget.Clock
	observe func(budget.Event)
	inForce atomic.Pointer[budget.Limiter]
}

// run keeps the store of the budgets tidy until the context ends.
func (b *budgets) run(ctx context.Context) error {
	if keeper, ok := b.Store.(interface{ Run(context.Context) error }); ok {
		return keeper.Run(ctx)
	}
	return nil
}

// limiter is the budgets of a configuration.
func (b *budgets) limiter(c *config.Config) (*budget.Limiter, error) {
	t := &c.Toolgate
	agents, err := agentBudgets(t)
	if err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
	}
	if len(t.Plans)+len(t.Budgets)+len(agents) == 0 {
		return budget.Unlimited(), nil
	}
	if len(t.Plans) > 0 && !b.Store.Exact() && !t.BoundedPlans {
		return nil, failure.Newf(failure.Config, "%s: the store of this gateway may lose the last charges with the power, which plans do not allow; "+
			"start it again with durability: full and budgets_in: store, or write bounded_plans: true", c.Path)
	}
	s := budget.Settings{
		Store: b.Store, Clock: &b.Clock, Observe: b.observe,
		Plans: make(map[string]budget.Plan), Tenants: make(map[string]budget.Tenant), Agents: agents,
	}
	for i := range t.Budgets {
		rule, bad := t.Budgets[i].Rule(func(pattern string) func(string) bool { return gate.Glob(pattern).Match })
		err = errors.Join(err, bad)
		s.Rules = append(s.Rules, rule)
	}
	for name, p := range t.Plans {
		plan, bad := p.Plan(name)
		err = errors.Join(err, bad)
		s.Plans[name] = plan
	}
	for name, own := range t.Tenants {
		tenant, bad := own.Tenant()
		err = errors.Join(err, bad)
		s.Tenants[name] = tenant
	}
	if err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
	}
	l, err := budget.New(s)
	if err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
	}
	return l, nil
}

// agentBudgets are the budgets of agents, by agent.
func agentBudgets(t *config.Toolgate) (all map[string]budget.Plan, err error) {
	for name := range t.Agents {
		settings := t.Agents[name].Budget
		if settings == nil {
			continue
		}
		plan, bad := settings.Plan(name)
		err = errors.Join(err, bad)
		if all == nil {
			all = make(map[string]budget.Plan)
		}
		all[name] = plan
	}
	return all, err
}

// classOf tells budgets the effective class of a tool, in one word.
func classOf(e *build.Examiner) func(gate.Request, []byte) string {
	return func(r gate.Request, listed []byte) string { return classWord(e.Class(&r, listed)) }
}

// BudgetUse implements [admin.Budgets].
func (ctl *Control) BudgetUse(ctx context.Context, q admin.BudgetQuery) ([]admin.BudgetUse, error) {
	ctx, cancel := context.WithTimeout(ctx, operate.StoreTime)
	defer cancel()
	limiter := ctl.d.budgets.inForce.Load()
	now := limiter.Now()
	list, err := ctl.d.budgets.Store.Usage(ctx, now, budget.Filter{Budget: q.Budget, Key: q.Key}, admin.MaxBudgetUses)
	if err != nil {
		return nil, err
	}
	uses := make([]admin.BudgetUse, len(list))
	for i := range list {
		uses[i] = budgetUse(limiter, &list[i], now)
	}
	return uses, nil
}

// budgetUse is a counter as people see it.
func budgetUse(l *budget.Limiter, b *budget.Balance, now time.Time) admin.BudgetUse {
	unit, window := budget.ParseMeasure(b.Measure)
	per, owner := budget.Owner(b.Key)
	use := admin.BudgetUse{
		Budget: b.Budget, Per: string(per), Owner: owner, Key: b.Key, Unit: string(unit), Window: window.String(),
		Used: unit.Whole(b.Used), Since: b.Start, ResetAt: b.ResetAt,
	}
	limit, _, known := l.Limit(b.Counter)
	if !known || limit == budget.NoLimit {
		return use
	}
	use.Limit = &limit
	if at, empties := window.EmptyAt(use.Used, limit, b.Start, now); empties && (window.Sliding() || at.Before(b.ResetAt)) {
		use.EmptyAt = &at
	}
	return use
}

func (ctl *Control) rebuildBudgets(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, operate.StoreTime)
	defer cancel()
	rebuilder, ok := ctl.d.budgets.Store.(budget.Rebuilder)
	if !ok {
		return "The budgets are in the store, which loses none: there is nothing to rebuild.", nil
	}
	if err := rebuilder.Rebuild(ctx); err != nil {
		return "", err
	}
	ctl.d.log.Warn("budgets are rebuilt: what was lost counts as unused", "actor", admin.Operator())
	return "The budgets are usable again; what was lost counts as unused.", nil
}
