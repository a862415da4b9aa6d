package budgettest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/budget"
)

// Groups applies orders to an empty store in groups: new bills, bills that were charged
// before, in the same group or an earlier one, refused ones and settlements. Each has
// the answer that it would have had alone, one after the other.
func Groups(t *testing.T, apply func(context.Context, []*budget.Order) error) {
	t.Helper()
	ctx := t.Context()
	rnd := rand.New(rand.NewPCG(3, 5)) //nolint:gosec // the same orders each time
	model := new(Memory)
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
					c := Hour(fmt.Sprint("b", i), fmt.Sprint("k", rnd.IntN(6)), 100)
					if c.Amount += rnd.Int64N(3); rnd.IntN(2) == 0 {
						c.Least = 1
					}
					charges = append(charges, c)
				}
				b = Bill(fmt.Sprint("call", calls), charges...)
				calls++
				if b.Once = rnd.IntN(3) == 0; !b.Once {
					known = append(known, b)
				}
			}
			o := &budget.Order{Bill: &b}
			if !b.Once && rnd.IntN(10) == 0 {
				o.Settle, o.Used = true, make([]int64, len(b.Charges))
				want = append(want, outcome(nil, model.Settle(ctx, b, o.Used)))
			} else {
				balances, err := model.Charge(ctx, b)
				if want = append(want, outcome(balances, err)); err != nil {
					refused++
				}
			}
			orders = append(orders, o)
		}
		if err := apply(ctx, orders); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range orders {
			got = append(got, outcome(o.Balances, o.Err))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("a group is answered otherwise than its orders one by one (-want +got):\n%s", diff)
		}
	}
	if repeated == 0 || refused == 0 {
		t.Errorf("%d repeated and %d refused, want some of each", repeated, refused)
	}
}
