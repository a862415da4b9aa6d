package budgettest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

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

// The operations of a history. Each is on one counter, which has the history's limit.
type (
	operation struct {
		charge bool
		bill   string
		spent  int64 // of a settlement; negative gives back all
	}
	answer struct {
		granted bool
		used    int64 // from the balance or the refusal
	}
	state struct {
		used  int64
		bills map[string]int64 // taken or settled amounts
	}
)

const (
	historyLimit  = 24
	historyAmount = 5
	historyLeast  = 2
	settled       = -1
)

// model is the behaviour of a store with one counter, for porcupine.
var model = porcupine.Model{
	Init: func() any { return state{bills: map[string]int64{}} },
	Step: func(s, in, out any) (bool, any) { return step(s.(state), in.(operation), out.(answer)) },
	Equal: func(a, b any) bool {
		return a.(state).used == b.(state).used && maps.Equal(a.(state).bills, b.(state).bills)
	},
}

// step reports whether a store in a state may give this answer to an operation, and
// returns the next state.
func step(s state, in operation, out answer) (bool, state) {
	taken, known := s.bills[in.bill]
	with := func(used, left int64) state {
		next := state{used: used, bills: maps.Clone(s.bills)}
		next.bills[in.bill] = left
		return next
	}
	switch {
	case !in.charge && (!known || taken == settled):
		return true, s
	case !in.charge:
		return true, with(s.used-budget.Rest(taken, in.spent), settled)
	case known:
		return out.granted && out.used == s.used, s
	}
	c := budget.Charge{Amount: historyAmount, Least: historyLeast, Limit: historyLimit}
	fits := c.Fit(s.used)
	if fits == 0 {
		return !out.granted && out.used == s.used, s
	}
	return out.granted && out.used == s.used+fits, with(s.used+fits, fits)
}

// linearizable records the answers to concurrent callers and checks that a sequential
// order explains them.
func linearizable(t *testing.T, s []budget.Store) {
	var mu sync.Mutex
	var history []porcupine.Operation
	began := time.Now()
	var all sync.WaitGroup
	for client := range 6 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(began.UnixNano()), uint64(client)))
			for i := range 12 {
				in := operation{charge: rnd.IntN(3) > 0, bill: fmt.Sprint(rnd.IntN(16)), spent: rnd.Int64N(7) - 1}
				c := Hour("b", "k", historyLimit)
				c.Amount, c.Least = historyAmount, historyLeast
				b := Bill(in.bill, c)
				call := time.Since(began)
				var out answer
				if in.charge {
					got, err := s[(client+i)%len(s)].Charge(t.Context(), b)
					refusal, is := errors.AsType[*budget.Refusal](err)
					switch {
					case err == nil:
						out = answer{true, got[0].Used}
					case is:
						out = answer{false, refusal.Used}
					default:
						t.Error(err)
						return
					}
				} else if err := s[(client+i)%len(s)].Settle(t.Context(), b, []int64{in.spent}); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				history = append(history, porcupine.Operation{
					ClientId: client, Input: in, Output: out, Call: int64(call), Return: int64(time.Since(began)),
				})
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	if !porcupine.CheckOperations(model, history) {
		for _, op := range history {
			t.Logf("%d: %d to %d: %+v gave %+v", op.ClientId, op.Call, op.Return, op.Input, op.Output)
		}
		t.Error("no order of these operations is that of one store")
	}
}
