package budgettest

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/toolgate/toolgate/budget"
)

// Groups applies orders to an empty store in groups: new bills, repeated bills of the
// same group or an earlier one, refused bills and settlements, for counters with
// several windows and charges that differ slightly. Each must have the answer that it
// would have alone, one after the other.
func Groups(t *testing.T, apply func(context.Context, []*budget.Order) error) {
	t.Helper()
	g := groups{rnd: rand.New(rand.NewPCG(3, 5))} // the same orders each time
	for range 60 {
		var orders []*budget.Order
		var want []string
		for range 1 + g.rnd.IntN(40) {
			o := g.order()
			orders, want = append(orders, o), append(want, g.expect(t.Context(), o))
		}
		if err := apply(t.Context(), orders); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range orders {
			got = append(got, outcome(o.Balances, o.Err))
			if o.Bill.Once && !o.Settle && o.Err == nil {
				g.once = append(g.once, asTaken(*o.Bill, o.Balances))
			}
		}
		for i := range orders {
			if got[i] != want[i] {
				t.Fatalf("order %d of %d, %+v:\n got %s\nwant %s", i, len(orders), *orders[i].Bill, got[i], want[i])
			}
		}
	}
	if g.repeated == 0 || g.refused == 0 || g.ended == 0 {
		t.Errorf("%d repeated, %d refused and %d ended that were charged once, want some of each", g.repeated, g.refused, g.ended)
	}
}

// groups generates the orders of [Groups] and their expected answers.
type groups struct {
	rnd   *rand.Rand
	model Memory
	calls int
	known []budget.Bill // may be repeated
	once  []budget.Bill // charged by an earlier group, to be settled

	repeated, refused, ended int
}

// order returns the next order.
func (g *groups) order() *budget.Order {
	if len(g.once) > 0 && g.rnd.IntN(6) == 0 {
		b := g.once[0]
		g.once = g.once[1:]
		g.ended++
		return g.settlement(&b)
	}
	if len(g.known) > 0 && g.rnd.IntN(12) == 0 {
		b := g.known[g.rnd.IntN(len(g.known))]
		g.repeated++
		return g.orderOf(&b)
	}
	b := randomBill(g.rnd, g.calls)
	g.calls++
	if b.Once = g.rnd.IntN(3) == 0; b.Once {
		return &budget.Order{Bill: &b}
	}
	g.known = append(g.known, b)
	return g.orderOf(&b)
}

// orderOf charges or settles a bill.
func (g *groups) orderOf(b *budget.Bill) *budget.Order {
	if g.rnd.IntN(4) == 0 {
		return g.settlement(b)
	}
	return &budget.Order{Bill: b}
}

func (g *groups) settlement(b *budget.Bill) *budget.Order {
	o := &budget.Order{Bill: b, Settle: true}
	for range b.Charges {
		o.Used = append(o.Used, g.rnd.Int64N(6))
	}
	return o
}

// expect returns the expected answer to an order.
func (g *groups) expect(ctx context.Context, o *budget.Order) string {
	if o.Settle {
		return outcome(nil, g.model.Settle(ctx, *o.Bill, o.Used))
	}
	balances, err := g.model.Charge(ctx, *o.Bill)
	if err != nil {
		g.refused++
	}
	return outcome(balances, err)
}
