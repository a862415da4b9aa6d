package budgettest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget"
)

// gateways are three that charge one store for some hours, all at a time. Some of their accesses
// are lost, before or after they took effect, and are repeated.
type gateways struct {
	store   Memory
	history History
	rnd     *rand.Rand
	now     time.Time
	bills   []*budget.Order // granted, and not settled
	lost    [][]*budget.Order

	repeats func(o *budget.Order) // is called before what was lost is repeated
}

const (
	rounds = 400
	tick   = 20 * time.Second
)

// run has them work. meanwhile is called before each round.
func (g *gateways) run(meanwhile func(round int)) {
	g.now = Noon
	for round := range rounds {
		meanwhile(round)
		g.now = g.now.Add(tick)
		var together []*Access
		for gateway := range 3 {
			together = append(together, &Access{
				Call: g.now.Add(time.Duration(g.rnd.IntN(5)) * time.Millisecond), Return: g.now.Add(time.Duration(5+g.rnd.IntN(5)) * time.Millisecond),
				Orders: g.orders(fmt.Sprint(round, "-", gateway)),
			})
		}
		g.rnd.Shuffle(len(together), func(i, j int) { together[i], together[j] = together[j], together[i] })
		for _, a := range together {
			g.execute(a)
			g.history.Add(a)
		}
	}
}

// orders are what one gateway asks: what was lost before, or up to three charges and settlements.
func (g *gateways) orders(name string) (some []*budget.Order) {
	if len(g.lost) > 0 {
		some = g.lost[0]
		g.lost = g.lost[1:]
		for i, o := range some {
			some[i] = &budget.Order{Bill: o.Bill, Settle: o.Settle, Used: o.Used}
			if g.repeats != nil {
				g.repeats(o)
			}
		}
		return some
	}
	for n := range 1 + g.rnd.IntN(3) {
		if len(g.bills) > 0 && g.rnd.IntN(2) == 0 {
			o := g.bills[0]
			g.bills = g.bills[1:]
			some = append(some, &budget.Order{Bill: o.Bill, Settle: true, Used: []int64{o.Balances[0].Taken, g.rnd.Int64N(30)}})
			continue
		}
		total, reserved := Hour("total", "k", budget.NoLimit), Hour("reserved", "k", 400)
		total.Start, total.End = Noon, Noon.Add(1000*time.Hour)
		reserved.Start = g.now.Truncate(time.Minute)
		reserved.End, reserved.Amount, reserved.Least = reserved.Start.Add(10*time.Minute), 30, 5
		b := Bill(fmt.Sprint(name, "-", n), total, reserved)
		b.At = g.now
		some = append(some, &budget.Order{Bill: &b})
	}
	return some
}

// execute executes an access, unless it is lost before.
func (g *gateways) execute(a *Access) {
	a.Lost = g.now.Before(Noon.Add((rounds-10)*tick)) && g.rnd.IntN(40) == 0
	if a.Lost {
		g.lost = append(g.lost, slices.Clone(a.Orders))
		if g.rnd.IntN(2) == 0 {
			return
		}
	}
	for _, o := range a.Orders {
		if o.Settle {
			_ = g.store.Settle(context.Background(), *o.Bill, o.Used)
			continue
		}
		got, err := g.store.Charge(context.Background(), *o.Bill)
		if a.Lost {
			continue
		}
		if o.Balances, o.Err = got, err; err == nil {
			g.bills = append(g.bills, o)
		}
	}
}

// The history of a store that is one is explained, however its accesses overlap and whatever
// was lost. One that counts a charge twice, or not at all, is found out.
func TestHistory(t *testing.T) {
	counter := func(name string) *budget.Charge {
		c := Hour(name, "k", budget.NoLimit)
		c.Start, c.End = Noon, Noon.Add(1000*time.Hour)
		return &c
	}
	once := func(do func(g *gateways)) func(*gateways) func(int) {
		return func(g *gateways) func(int) {
			return func(round int) {
				if round == rounds/2 {
					do(g)
				}
			}
		}
	}
	for name, test := range map[string]struct {
		meanwhile func(g *gateways) func(round int)
		holds     bool
	}{
		"one store":                 {once(func(*gateways) {}), true},
		"a charge is counted twice": {once(func(g *gateways) { g.store.add(counter("total"), 1) }), false},
		"a charge is lost":          {once(func(g *gateways) { g.store.add(counter("total"), -1) }), false},
		"a bill is charged again": {func(g *gateways) func(int) {
			g.repeats = func(o *budget.Order) { delete(g.store.bills, o.Bill.Key) }
			return func(int) {}
		}, false},
		"a rest is given back twice": {once(func(g *gateways) {
			windows := g.store.counters[budget.Counter{Budget: "reserved", Measure: counter("reserved").Measure, Key: "k"}]
			windows[len(windows)-1].used--
		}), false},
		"a window ends too soon": {once(func(g *gateways) {
			windows := g.store.counters[budget.Counter{Budget: "reserved", Measure: counter("reserved").Measure, Key: "k"}]
			windows[len(windows)-2].used = 0
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			g := &gateways{rnd: rand.New(rand.NewPCG(seed, 1))}
			g.run(test.meanwhile(g))
			totals, err := g.history.check(time.Minute, 100)
			if !test.holds {
				if err == nil || !strings.Contains(err.Error(), "no order of these accesses is that of one store") {
					t.Errorf("seed %d: %v", seed, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			has := make(Totals)
			for c, windows := range g.store.counters {
				for _, w := range windows {
					has[c] += w.used
				}
			}
			if !maps.Equal(totals, has) {
				t.Errorf("seed %d: the store has %v, and the history says %v", seed, has, totals)
			}
			if all, lost := g.history.Len(); all != 3*rounds || lost == 0 {
				t.Errorf("%d accesses, of which %d were lost", all, lost)
			}
		})
	}
}

// An answer is held against what the access itself has taken, not only against what follows.
func TestHistoryOfOne(t *testing.T) {
	charge := Hour("b", "k", 10)
	charge.Amount = 6
	first, second := Bill("1", charge), Bill("2", charge)
	granted := func(used int64) []budget.Balance {
		return []budget.Balance{{Counter: charge.Counter, Taken: 6, Used: used}}
	}
	refused := func(used int64) error { return charge.Refuse(used, charge.End) }
	for name, test := range map[string]struct {
		second *budget.Order
		at     int // begins at; the first lasts from 0 to 10
		holds  bool
	}{
		"refused after the first":            {&budget.Order{Bill: &second, Err: refused(6)}, 20, true},
		"refused with the first":             {&budget.Order{Bill: &second, Err: refused(6)}, 5, true},
		"refused, and too little was used":   {&budget.Order{Bill: &second, Err: refused(4)}, 20, false},
		"granted beyond the limit":           {&budget.Order{Bill: &second, Balances: granted(12)}, 20, false},
		"granted as if it were the first":    {&budget.Order{Bill: &second, Balances: granted(6)}, 20, false},
		"the same bill again":                {&budget.Order{Bill: &first, Balances: granted(6)}, 20, true},
		"the same bill is charged again":     {&budget.Order{Bill: &first, Balances: granted(12)}, 20, false},
		"another error than that of a limit": {&budget.Order{Bill: &second, Err: errors.New("broken")}, 20, false},
	} {
		at := func(ms int) time.Time { return Noon.Add(time.Duration(ms) * time.Millisecond) }
		var h History
		h.Add(&Access{Call: at(test.at), Return: at(test.at + 10), Orders: []*budget.Order{test.second}})
		h.Add(&Access{Call: at(0), Return: at(10), Orders: []*budget.Order{{Bill: &first, Balances: granted(6)}}})
		if _, err := h.Check(time.Minute); (err == nil) != test.holds {
			t.Errorf("%s: %v", name, err)
		}
	}
}
