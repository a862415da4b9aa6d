package redis

import (
	"context"

	"github.com/toolgate/toolgate/budget"
)

// ApplyTogether applies orders as one group.
func ApplyTogether(ctx context.Context, b *Budgets, orders []*budget.Order) error {
	return b.apply(ctx, orders)
}
