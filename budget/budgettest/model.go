package budgettest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget"
)

// sameAsModel makes random charges, repetitions and settlements in sequence, and
// expects the answers of [Memory].
func sameAsModel(t *testing.T, s []budget.Store) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	memory := new(Memory)
	var bills []budget.Bill
	for i := range 300 {
		store := s[rnd.IntN(len(s))]
		b, ends := randomBill(rnd, i), rnd.IntN(3) == 0
		if len(bills) > 0 && rnd.IntN(3) == 0 {
			n := rnd.IntN(len(bills))
			if b = bills[n]; b.Once {
				bills, ends = slices.Delete(bills, n, n+1), true
			}
		} else if b.Once = rnd.IntN(2) == 0; b.Once {
			ends = false
		}
		if ends {
			var spent []int64
			if rnd.IntN(3) > 0 {
				for range b.Charges {
					spent = append(spent, rnd.Int64N(12))
				}
			}
			if err := store.Settle(t.Context(), b, spent); err != nil {
				t.Fatal(err)
			}
			_ = memory.Settle(t.Context(), b, spent)
		} else {
			got, err := store.Charge(t.Context(), b)
			expected, refusal := memory.Charge(t.Context(), b)
			if g, w := outcome(got, err), outcome(expected, refusal); g != w {
				t.Fatalf("seed %d, step %d, charge %+v:\n got %s\nwant %s", seed, i, b, g, w)
			}
			if b.Once {
				b = asTaken(b, got)
			}
			if len(b.Charges) > 0 {
				bills = append(bills, b)
			}
		}
		at := Noon.Add(time.Duration(rnd.IntN(4)) * 20 * time.Minute)
		got, err := store.Usage(t.Context(), at, budget.Filter{}, 100)
		expected, _ := memory.Usage(t.Context(), at, budget.Filter{}, 100)
		if g, w := outcome(got, err), outcome(expected, nil); g != w {
			t.Fatalf("seed %d, step %d, usage at %s:\n got %s\nwant %s", seed, i, at, g, w)
		}
	}
}

// asTaken returns the bill to settle; without charges when it was refused.
func asTaken(b budget.Bill, taken []budget.Balance) budget.Bill {
	b.Charges = slices.Clone(b.Charges[:len(taken)])
	for i := range taken {
		b.Charges[i].Amount = taken[i].Taken
	}
	return b
}

// outcome formats the answer of a store for comparison.
func outcome(balances []budget.Balance, err error) string {
	if r, ok := errors.AsType[*budget.Refusal](err); ok {
		return fmt.Sprintf("refused %v %d %d %d %s", r.Counter, r.Limit, r.Used, r.Amount, r.ResetAt.UTC())
	}
	if err != nil {
		return "error " + err.Error()
	}
	var text strings.Builder
	text.WriteString("granted")
	for _, b := range balances {
		fmt.Fprintf(&text, " [%v %d of %d, %s to %s]", b.Counter, b.Taken, b.Used, b.Start.UTC(), b.ResetAt.UTC())
	}
	return text.String()
}

// randomBill charges some of a few counters, in one of a few windows.
func randomBill(rnd *rand.Rand, i int) budget.Bill {
	b := Bill(fmt.Sprint("call", i))
	b.Round = rnd.IntN(2)
	b.At = Noon.Add(time.Duration(rnd.IntN(60)) * time.Minute)
	for n := range 4 {
		if rnd.IntN(2) == 0 && (n > 0 || len(b.Charges) == 0) {
			continue
		}
		c := Hour(fmt.Sprint("b", n), fmt.Sprint("k", rnd.IntN(2)), 1+rnd.Int64N(60))
		c.Amount = 1 + rnd.Int64N(10)
		if rnd.IntN(2) == 0 {
			c.Least = 1 + rnd.Int64N(c.Amount)
		}
		if rnd.IntN(6) == 0 {
			c.Limit = budget.NoLimit
		}
		if n == 3 { // slots
			c.Start = b.At.Truncate(10 * time.Minute)
			c.End = c.Start.Add(40 * time.Minute)
		}
		b.Charges = append(b.Charges, c)
	}
	if len(b.Charges) == 0 {
		b.Charges = append(b.Charges, Hour("b0", "k0", 20))
	}
	return b
}

const (
	historyLimit  = 24
	historyAmount = 5
	historyLeast  = 2
)

// linearizable records the answers to concurrent callers and checks that a sequential
// order explains them.
func linearizable(t *testing.T, s []budget.Store) {
	var h History
	seed := uint64(time.Now().UnixNano())
	var all sync.WaitGroup
	for client := range 6 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(client)))
			for i := range 12 {
				c := Hour("b", "k", historyLimit)
				c.Amount, c.Least = historyAmount, historyLeast
				b := Bill(fmt.Sprint(rnd.IntN(16)), c)
				o := &budget.Order{Bill: &b, Settle: rnd.IntN(3) == 0, Used: []int64{rnd.Int64N(6)}}
				if err := h.do(t.Context(), s[(client+i)%len(s)], o); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	if _, err := h.Check(time.Minute); err != nil {
		t.Error(err)
	}
}

// do gives an order to a store and adds it to the history.
func (h *History) do(ctx context.Context, s budget.Store, o *budget.Order) error {
	a := &Access{Orders: []*budget.Order{o}, Call: time.Now()}
	if o.Settle {
		o.Err = s.Settle(ctx, *o.Bill, o.Used)
	} else {
		o.Balances, o.Err = s.Charge(ctx, *o.Bill)
	}
	a.Return = time.Now()
	h.Add(a)
	if _, refused := errors.AsType[*budget.Refusal](o.Err); refused {
		return nil
	}
	return o.Err
}
