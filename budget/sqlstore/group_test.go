package sqlstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/budget/sqlstore"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
)

// TestGroupsAreAsIfAlone applies orders in groups: new bills, bills that were charged
// before, in the same group or an earlier one, refused ones and settlements. Each has
// the answer that it would have had alone, one after the other.
func TestGroupsAreAsIfAlone(t *testing.T) {
	ctx := t.Context()
	rnd := rand.New(rand.NewPCG(3, 5)) //nolint:gosec // the same orders each time
	s := sqlstore.New(storetest.Opened(t, store.Options{Path: filepath.Join(t.TempDir(), "store.db")}), nil)
	model := new(budgettest.Memory)
	calls, repeated, refused := 0, 0, 0
	var known []budget.Bill
	for range 60 {
		var orders []*budget.Order
		var want []string
		for range 1 + rnd.IntN(40) {
			var b budget.Bill
			if len(known) > 0 && rnd.IntN(12) == 0 {
				b = known[rnd.IntN(len(known))]
				repeated++
			} else {
				var charges []budget.Charge
				for i := range 1 + rnd.IntN(2) {
					charges = append(charges, budgettest.Hour(fmt.Sprint("b", i), fmt.Sprint("k", rnd.IntN(6)), 60))
				}
				b = budgettest.Bill(fmt.Sprint("call", calls), charges...)
				calls++
				if b.Once = rnd.IntN(3) == 0; !b.Once {
					known = append(known, b)
				}
			}
			o := &budget.Order{Bill: &b}
			if !b.Once && rnd.IntN(10) == 0 {
				o.Settle, o.Used = true, make([]int64, len(b.Charges))
				want = append(want, answer(nil, model.Settle(ctx, b, o.Used)))
			} else {
				balances, err := model.Charge(ctx, b)
				if want = append(want, answer(balances, err)); err != nil {
					refused++
				}
			}
			orders = append(orders, o)
		}
		if err := sqlstore.ApplyTogether(ctx, s, orders); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range orders {
			got = append(got, answer(o.Balances, o.Err))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("a group is answered otherwise than its orders one by one (-want +got):\n%s", diff)
		}
	}
	if repeated == 0 || refused == 0 {
		t.Errorf("%d repeated and %d refused, want some of each", repeated, refused)
	}
}

// answer is the answer to an order in words.
func answer(balances []budget.Balance, err error) string {
	if r, ok := errors.AsType[*budget.Refusal](err); ok {
		return fmt.Sprint("refused by ", r.Counter, " at ", r.Used)
	}
	text := fmt.Sprint(err)
	for _, b := range balances {
		text += fmt.Sprint(" ", b.Counter, b.Taken, b.Used)
	}
	return text
}
