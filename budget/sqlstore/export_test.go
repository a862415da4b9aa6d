package sqlstore

import (
	"context"
	"time"

	"github.com/toolgate/toolgate/budget"
)

// Prune forgets what has outlived its use at a time.
func Prune(ctx context.Context, s *Store, now time.Time) error { return s.prune(ctx, now, true) }

// ApplyTogether applies orders as one group.
func ApplyTogether(ctx context.Context, s *Store, orders []*budget.Order) error {
	if s.budgets.Shared() {
		return s.applyShared(ctx, orders)
	}
	return s.applyFile(ctx, orders)
}
