package sqlstore_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/budget/sqlstore"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
)

func TestGroupsAreAsIfAlone(t *testing.T) {
	for name, where := range map[string]func(*testing.T) store.Options{
		"file":     func(t *testing.T) store.Options { return store.Options{Path: filepath.Join(t.TempDir(), "store.db")} },
		"postgres": func(t *testing.T) store.Options { return store.Options{URL: shared.SchemaURL(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sqlstore.New(storetest.Opened(t, where(t)), nil)
			budgettest.Groups(t, func(ctx context.Context, orders []*budget.Order) error {
				return sqlstore.ApplyTogether(ctx, s, orders)
			})
		})
	}
}
