package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/budget/redis"
	"github.com/toolgate/toolgate/budget/redis/redistest"
)

// A key of another type in the place of a counter fails only the bills with that
// counter. They can be charged again when it is repaired.
func TestBrokenCounterFailsItsOwnBills(t *testing.T) {
	t.Parallel()
	for _, part := range []string{":w:", ":a:"} {
		t.Run(strings.Trim(part, ":"), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			b := client(t, server.Address()).Budgets(new(memory))
			if _, err := b.Charge(t.Context(), budgettest.Bill("first", budgettest.Hour("broken", "k", 10))); err != nil {
				t.Fatal(err)
			}
			broken := ""
			for _, key := range server.Keys(t) {
				switch {
				case strings.Contains(key, part):
					broken = key
				case strings.Contains(key, ":w:"), strings.Contains(key, ":a:"):
					server.Do(t, "DEL "+key)
				}
			}
			server.Do(t, "SET "+broken+" x")
			var orders []*budget.Order
			for i, name := range []string{"good", "broken", "full", "good"} {
				limit := int64(10)
				if name == "full" {
					limit = 0
				}
				bill := budgettest.Bill(fmt.Sprint(i), budgettest.Hour(name, "k", limit))
				orders = append(orders, &budget.Order{Bill: &bill})
			}
			if err := redis.ApplyTogether(t.Context(), b, orders); err != nil {
				t.Fatal(err)
			}
			for i, used := range map[int]int64{0: 1, 3: 2} {
				if o := orders[i]; o.Err != nil || len(o.Balances) != 1 || o.Balances[0].Used != used {
					t.Errorf("order %d: %+v, %v; want %d used", i, o.Balances, o.Err, used)
				}
			}
			if err := orders[1].Err; err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || strings.Contains(err.Error(), "\n") {
				t.Errorf("charged to a broken counter: %+v, %v", orders[1].Balances, err)
			}
			if _, refused := errors.AsType[*budget.Refusal](orders[2].Err); !refused {
				t.Errorf("beyond a limit: %v", orders[2].Err)
			}
			if _, err := b.Charge(t.Context(), *orders[1].Bill); err == nil {
				t.Error("a bill that failed is known as charged")
			}
			server.Do(t, "DEL "+broken)
			if got, err := b.Charge(t.Context(), *orders[1].Bill); err != nil || got[0].Used != 1 {
				t.Errorf("after it was mended: %+v, %v; want 1 used", got, err)
			}
		})
	}
}
