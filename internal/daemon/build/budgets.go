package build

import (
	"context"
	"log/slog"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/redis"
	"github.com/toolgate/toolgate/budget/sqlstore"
	"github.com/toolgate/toolgate/internal/store"
)

// BudgetParts are the connections that a store of budgets may use.
type BudgetParts struct {
	Store *store.Store
	Redis *redis.Client // nil where none is configured
	Log   *slog.Logger
}

// budgetStores are the constructors of budget stores, by the names that budgets_in
// uses.
var budgetStores = map[string]func(BudgetParts) budget.Store{
	"store": func(p BudgetParts) budget.Store { return sqlstore.New(p.Store, p.Log) },
	"redis": func(p BudgetParts) budget.Store { return p.Redis.Budgets(budgetEpoch{meta: p.Store.Meta()}) },
}

// BudgetStore returns the store of budgets with a name that the configuration has
// checked.
func BudgetStore(name string, p BudgetParts) budget.Store { return budgetStores[name](p) }

// budgetEpoch records the epoch of budgets in Redis in the store, because Redis and the
// store lose their data independently.
type budgetEpoch struct{ meta *store.Meta }

const epochEntry = "budget/redis_epoch"

// Known implements [redis.Epochs].
func (e budgetEpoch) Known(ctx context.Context) (string, error) {
	epoch, _, err := e.meta.Get(ctx, epochEntry)
	return string(epoch), err
}

// Remember implements [redis.Epochs].
func (e budgetEpoch) Remember(ctx context.Context, epoch string) error {
	return e.meta.Put(ctx, epochEntry, []byte(epoch))
}
