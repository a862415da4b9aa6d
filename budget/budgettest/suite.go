package budgettest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget"
)

// Opener creates an empty store for one test and returns n handles of it, like replicas
// of a gateway. A store for a single process returns one handle.
type Opener func(t *testing.T, n int) []budget.Store

// Run runs the suite on stores of one kind.
func Run(t *testing.T, open Opener) {
	for name, test := range map[string]func(*testing.T, []budget.Store){
		"ChargesAllOrNone":              allOrNone,
		"LimitIsExact":                  limitIsExact,
		"BillIsChargedOnce":             chargedOnce,
		"KeyOfAnotherBill":              anotherBill,
		"BillsThatNobodyRepeats":        once,
		"RefusedBillLeavesNothing":      refusedLeavesNothing,
		"RefusalSaysWhy":                refusalSaysWhy,
		"LessIsTakenWhereAllowed":       least,
		"SettlingGivesTheRestBack":      settle,
		"SettlingIsDoneOnce":            settledOnce,
		"RefundOfWhatWasNeverCharged":   settleUnknown,
		"WindowsCountUntilTheyEnd":      windows,
		"SlotsOfASlidingWindowAddUp":    slots,
		"OverlappingWindowsBothCount":   overlap,
		"CountersAreApart":              countersApart,
		"NoLimitIsCounted":              noLimit,
		"LimitMayChange":                limitChanges,
		"UsageIsListed":                 usage,
		"ForeignKeys":                   foreignKeys,
		"BadBillsAreRefused":            badBills,
		"EndedContextChargesOrSaysSo":   endedContext,
		"ManyCountersInManyBills":       manyCounters,
		"SameAsInMemory":                sameAsModel,
		"HistoriesAreLinearizable":      linearizable,
		"OppositeOrdersDoNotBlock":      oppositeOrders,
		"ConcurrentSettlingIsDoneOnce":  concurrentSettling,
		"ReplicasChargeTheSameBillOnce": sameBillEverywhere,
		"InferencesAreExact":            inferences,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t, 3))
		})
	}
}

// Noon is the time of the suite's charges.
var Noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// Hour returns a charge of one unit in the hour of [Noon].
func Hour(name, key string, limit int64) budget.Charge {
	return budget.Charge{
		Counter: budget.Counter{Budget: name, Measure: "calls/hour", Key: key},
		Start:   Noon, End: Noon.Add(time.Hour), Amount: 1, Limit: limit,
	}
}

// Bill returns the first round of a call at a time within the hour of [Noon].
func Bill(call string, charges ...budget.Charge) budget.Bill {
	return budget.Bill{Key: budget.Key{Call: call}, At: Noon.Add(time.Minute), Until: Noon.Add(time.Hour), Charges: charges}
}

// charge charges a bill that must be granted.
func charge(t *testing.T, s budget.Store, b budget.Bill) []budget.Balance {
	t.Helper()
	got, err := s.Charge(t.Context(), b)
	if err != nil {
		t.Fatalf("charge %s: %v", b.Call, err)
	}
	if len(got) != len(b.Charges) {
		t.Fatalf("charge %s: %d balances of %d charges", b.Call, len(got), len(b.Charges))
	}
	return got
}

// refused charges a bill that must be refused.
func refused(t *testing.T, s budget.Store, b budget.Bill) {
	t.Helper()
	_ = refusal(t, s, b)
}

// refusal is refused, and returns the refusal.
func refusal(t *testing.T, s budget.Store, b budget.Bill) *budget.Refusal {
	t.Helper()
	got, err := s.Charge(t.Context(), b)
	r, ok := errors.AsType[*budget.Refusal](err)
	if !ok {
		t.Fatalf("charge %s: %+v, %v; want a refusal", b.Call, got, err)
	}
	return r
}

// used returns the usage of a counter in the hour of Noon.
func used(t *testing.T, s budget.Store, name, key string) int64 {
	t.Helper()
	list, err := s.Usage(t.Context(), Noon.Add(time.Minute), budget.Filter{Budget: name, Key: key}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		return 0
	}
	return list[0].Used
}

func want(t *testing.T, what string, got, want int64) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

func allOrNone(t *testing.T, s []budget.Store) {
	charge(t, s[0], Bill("a", Hour("small", "k", 1), Hour("big", "k", 9)))
	r := refusal(t, s[0], Bill("b", Hour("big", "k", 9), Hour("small", "k", 1)))
	if r.Budget != "small" {
		t.Errorf("refused by %s", r.Budget)
	}
	want(t, "used of the other budget", used(t, s[0], "big", "k"), 1)
}

func limitIsExact(t *testing.T, s []budget.Store) {
	const limit, callers, tries = 100, 24, 12
	var granted, other atomic.Int64
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := range tries {
				b := Bill(fmt.Sprintf("c%d-%d", c, i), Hour("b", "k", limit))
				b.Once = i%2 == 0
				_, err := s[c%len(s)].Charge(t.Context(), b)
				switch _, refusal := errors.AsType[*budget.Refusal](err); {
				case err == nil:
					granted.Add(1)
				case !refusal:
					other.Add(1)
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	want(t, "granted", granted.Load(), limit)
	want(t, "used", used(t, s[0], "b", "k"), limit)
}

func chargedOnce(t *testing.T, s []budget.Store) {
	b := Bill("a", Hour("b", "k", 5))
	want(t, "used after the first", charge(t, s[0], b)[0].Used, 1)
	again := charge(t, s[0], b)[0]
	want(t, "used after the second", again.Used, 1)
	want(t, "taken by the second", again.Taken, 1)
	b.Round = 1
	want(t, "used after another round", charge(t, s[0], b)[0].Used, 2)
	charge(t, s[0], Bill("c", Hour("b", "k", 5)))
	b.Round = 0
	want(t, "used, by a repetition", charge(t, s[0], b)[0].Used, 3)
}

func anotherBill(t *testing.T, s []budget.Store) {
	charge(t, s[0], Bill("a", Hour("b", "k", 5)))
	other := Bill("a", Hour("b", "k", 5), Hour("c", "k", 5))
	got, err := s[0].Charge(t.Context(), other)
	if !errors.Is(err, budget.ErrOther) {
		t.Errorf("charged: %+v, %v", got, err)
	}
	full := Bill("a", Hour("b", "k", 5), Hour("c", "k", 0)) // which would be refused as a new one
	if got, err := s[0].Charge(t.Context(), full); !errors.Is(err, budget.ErrOther) {
		t.Errorf("charged beyond a limit: %+v, %v", got, err)
	}
	want(t, "used", used(t, s[0], "b", "k"), 1)
	want(t, "used of the other budget", used(t, s[0], "c", "k"), 0)
}

// once charges and settles bills that are promised to be unique.
func once(t *testing.T, s []budget.Store) {
	bytes := Hour("bytes", "k", 100)
	bytes.Amount, bytes.Least = 70, 20
	for i, tc := range []struct {
		taken int64
		used  []int64
		want  int64 // of bytes, after it
	}{
		{70, nil, 0},
		{70, []int64{1, 60}, 60},
		{40, []int64{1, 90}, 100}, // more than it was given
		{0, nil, 100},             // refused
	} {
		b := Bill(fmt.Sprint("call", i), Hour("calls", "k", 5), bytes)
		b.Once = true
		if tc.taken == 0 {
			refused(t, s[0], b)
			continue
		}
		b = asTaken(b, charge(t, s[0], b))
		want(t, "taken", b.Charges[1].Amount, tc.taken)
		if err := s[0].Settle(t.Context(), b, tc.used); err != nil {
			t.Fatal(err)
		}
		want(t, "bytes used", used(t, s[0], "bytes", "k"), tc.want)
	}
	want(t, "calls used", used(t, s[0], "calls", "k"), 2)
}

func sameBillEverywhere(t *testing.T, s []budget.Store) {
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() { charge(t, s[i%len(s)], Bill("a", Hour("b", "k", 1))) })
	}
	all.Wait()
	want(t, "used", used(t, s[0], "b", "k"), 1)
}

func refusedLeavesNothing(t *testing.T, s []budget.Store) {
	b := Bill("a", Hour("b", "k", 0))
	refused(t, s[0], b)
	want(t, "used", used(t, s[0], "b", "k"), 0)
	b.Charges[0].Limit = 1
	want(t, "used with another limit", charge(t, s[0], b)[0].Used, 1)
}

func refusalSaysWhy(t *testing.T, s []budget.Store) {
	three := Hour("b", "k", 4)
	three.Amount = 3
	charge(t, s[0], Bill("a", three))
	r := refusal(t, s[0], Bill("b", three))
	if r.Counter != three.Counter || r.Limit != 4 || r.Used != 3 || r.Amount != 3 || !r.ResetAt.Equal(three.End) {
		t.Errorf("%+v", r)
	}
	five := Hour("never", "k", 4)
	five.Amount = 5
	if r := refusal(t, s[0], Bill("c", five)); r.Used != 0 || !r.ResetAt.Equal(five.End) {
		t.Errorf("of an unused budget: %+v", r)
	}
}

func least(t *testing.T, s []budget.Store) {
	c := Hour("b", "k", 100)
	c.Amount, c.Least = 70, 20
	first := charge(t, s[0], Bill("a", c))[0]
	want(t, "taken of a fresh budget", first.Taken, 70)
	second := charge(t, s[0], Bill("b", c))[0]
	want(t, "taken of the rest", second.Taken, 30)
	want(t, "used", second.Used, 100)
	want(t, "taken, by a repetition", charge(t, s[0], Bill("b", c))[0].Taken, 30)
	if err := s[0].Settle(t.Context(), Bill("b", c), []int64{11}); err != nil {
		t.Fatal(err)
	}
	want(t, "used after settling", used(t, s[0], "b", "k"), 81)
	r := refusal(t, s[0], Bill("c", c))
	want(t, "used in the refusal", r.Used, 81)
}

func settle(t *testing.T, s []budget.Store) {
	reserve := Hour("bytes", "k", 1000)
	reserve.Amount = 400
	for i, tc := range []struct {
		used []int64
		want int64
	}{{[]int64{1, 150}, 150}, {[]int64{1, 0}, 0}, {[]int64{1, 400}, 400}, {[]int64{1, 999}, 400}, {[]int64{1, -5}, 0}, {nil, 0}} {
		key := fmt.Sprint(i)
		reserve.Key = key
		b := Bill("a"+key, Hour("calls", key, 5), reserve)
		charge(t, s[0], b)
		if err := s[0].Settle(t.Context(), b, tc.used); err != nil {
			t.Fatal(err)
		}
		want(t, fmt.Sprintf("bytes used after %v", tc.used), used(t, s[0], "bytes", key), tc.want)
		calls := int64(1)
		if tc.used == nil {
			calls = 0
		}
		want(t, fmt.Sprintf("calls used after %v", tc.used), used(t, s[0], "calls", key), calls)
	}
}

func settledOnce(t *testing.T, s []budget.Store) {
	reserve := Hour("bytes", "k", 1000)
	reserve.Amount = 400
	b := Bill("a", reserve)
	charge(t, s[0], b)
	for _, spent := range [][]int64{{100}, {0}, nil} {
		if err := s[0].Settle(t.Context(), b, spent); err != nil {
			t.Fatal(err)
		}
		want(t, "used", used(t, s[0], "bytes", "k"), 100)
	}
	again := charge(t, s[0], b)[0]
	want(t, "taken, by a charge after settling", again.Taken, 400)
	want(t, "used after it", again.Used, 100)
}

func concurrentSettling(t *testing.T, s []budget.Store) {
	reserve := Hour("bytes", "k", 1<<40)
	reserve.Amount = 400
	const bills = 10
	var all sync.WaitGroup
	for i := range bills {
		b := Bill(fmt.Sprint(i), reserve)
		charge(t, s[0], b)
		for n := range 6 {
			all.Go(func() {
				if err := s[n%len(s)].Settle(t.Context(), b, []int64{100}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	want(t, "used", used(t, s[0], "bytes", "k"), bills*100)
}

func settleUnknown(t *testing.T, s []budget.Store) {
	charge(t, s[0], Bill("a", Hour("b", "k", 5)))
	if err := s[0].Settle(t.Context(), Bill("never", Hour("b", "k", 5)), nil); err != nil {
		t.Fatal(err)
	}
	want(t, "used", used(t, s[0], "b", "k"), 1)
	refused(t, s[0], Bill("refused", Hour("b", "k", 1)))
	if err := s[0].Settle(t.Context(), Bill("refused", Hour("b", "k", 1)), nil); err != nil {
		t.Fatal(err)
	}
	want(t, "used after the refund of a refused bill", used(t, s[0], "b", "k"), 1)
}

// at moves a bill and its charges in time.
func at(b budget.Bill, by time.Duration) budget.Bill {
	b.At, b.Until = b.At.Add(by), b.Until.Add(by)
	b.Charges = slices.Clone(b.Charges)
	for i := range b.Charges {
		b.Charges[i].Start, b.Charges[i].End = b.Charges[i].Start.Add(by), b.Charges[i].End.Add(by)
	}
	return b
}

func windows(t *testing.T, s []budget.Store) {
	charge(t, s[0], Bill("a", Hour("b", "k", 1)))
	charge(t, s[0], at(Bill("next", Hour("b", "k", 1)), time.Hour))
	charge(t, s[0], at(Bill("before", Hour("b", "k", 1)), -time.Hour))
	refused(t, s[0], Bill("c", Hour("b", "k", 1))) // the clock goes on, and back
	refused(t, s[0], at(Bill("d", Hour("b", "k", 1)), -time.Hour))
	refused(t, s[0], at(Bill("e", Hour("b", "k", 1)), time.Hour))
	end := Bill("f", Hour("b", "k", 1))
	end.At = Noon.Add(time.Hour - time.Millisecond)
	refused(t, s[0], end)
}

func slots(t *testing.T, s []budget.Store) {
	slot := func(n int) budget.Bill { // of ten minutes within an hour
		c := Hour("b", "k", 3)
		c.Measure = "calls/sliding:1h"
		c.Start = Noon.Add(time.Duration(n) * 10 * time.Minute)
		c.End = c.Start.Add(70 * time.Minute)
		b := Bill(fmt.Sprint("slot", n), c)
		b.At = c.Start.Add(time.Second)
		return b
	}
	for n := range 3 {
		got := charge(t, s[0], slot(n))[0]
		want(t, "used", got.Used, int64(n+1))
		if !got.ResetAt.Equal(Noon.Add(70*time.Minute)) || !got.Start.Equal(Noon) {
			t.Errorf("used from %s, reset at %s", got.Start, got.ResetAt)
		}
	}
	for n := 3; n < 7; n++ {
		if r := refusal(t, s[0], slot(n)); r.Used != 3 || !r.ResetAt.Equal(Noon.Add(70*time.Minute)) {
			t.Errorf("%+v", r)
		}
	}
	want(t, "used once the first slot has ended", charge(t, s[0], slot(7))[0].Used, 3)
	full := slot(7)
	full.Call = "full"
	refused(t, s[0], full)
	charge(t, s[0], slot(8))
	back := slot(4) // what was used in slots to come counts
	back.Call = "back"
	refused(t, s[0], back)
}

func overlap(t *testing.T, s []budget.Store) {
	charge(t, s[0], Bill("a", Hour("b", "k", 2)))
	other := Hour("b", "k", 2) // as after a change of zone
	other.Start, other.End = Noon.Add(-30*time.Minute), Noon.Add(30*time.Minute)
	got := charge(t, s[0], Bill("b", other))[0]
	want(t, "used", got.Used, 2)
	if !got.ResetAt.Equal(other.End) {
		t.Errorf("reset at %s", got.ResetAt)
	}
	refused(t, s[0], Bill("c", other))
	refused(t, s[0], Bill("d", Hour("b", "k", 2)))
	later := Bill("e", Hour("b", "k", 2))
	later.At = Noon.Add(40 * time.Minute)
	want(t, "used once the other window has ended", charge(t, s[0], later)[0].Used, 2)
}

func countersApart(t *testing.T, s []budget.Store) {
	charge(t, s[0], Bill("a", Hour("b", "k", 1)))
	other := Hour("b", "k", 1)
	other.Measure = "calls/day"
	charge(t, s[0], Bill("b", other))
	charge(t, s[0], Bill("c", Hour("b", "K", 1)))
	charge(t, s[0], Bill("d", Hour("B", "k", 1)))
	charge(t, s[0], Bill("e", Hour("b", "", 1)))
	charge(t, s[0], Bill("A", Hour("b", "k2", 1)))
	refused(t, s[0], Bill("f", Hour("b", "k", 1)))
}

func noLimit(t *testing.T, s []budget.Store) {
	c := Hour("b", "k", budget.NoLimit)
	c.Amount = budget.MaxAmount / 4
	for i := range 4 {
		charge(t, s[0], Bill(fmt.Sprint(i), c))
	}
	want(t, "used", used(t, s[0], "b", "k"), budget.MaxAmount)
}

func limitChanges(t *testing.T, s []budget.Store) {
	charge(t, s[0], Bill("a", Hour("b", "k", 2)))
	charge(t, s[0], Bill("b", Hour("b", "k", 2)))
	if r := refusal(t, s[0], Bill("c", Hour("b", "k", 1))); r.Used != 2 || r.Limit != 1 {
		t.Errorf("%+v", r)
	}
	charge(t, s[0], Bill("d", Hour("b", "k", 3)))
}

func usage(t *testing.T, s []budget.Store) {
	day := Hour("b", "k1", 9)
	day.Measure, day.Amount = "calls/day", 7
	charge(t, s[0], Bill("a", Hour("b", "k2", 9), Hour("a", "k1", 9), Hour("b", "k1", 9), day))
	charge(t, s[0], at(Bill("later", Hour("c", "k", 9)), 2*time.Hour))
	gone := Bill("gone", Hour("z", "k", 9))
	charge(t, s[0], gone)
	if err := s[0].Settle(t.Context(), gone, nil); err != nil {
		t.Fatal(err)
	}
	list := func(f budget.Filter, limit int) (names []string) {
		got, err := s[len(s)-1].Usage(t.Context(), Noon.Add(time.Minute), f, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range got {
			names = append(names, fmt.Sprintf("%s %s %s %d", b.Budget, b.Measure, b.Key, b.Used))
			if !b.Start.Equal(Noon) || !b.ResetAt.Equal(Noon.Add(time.Hour)) || b.Taken != 0 {
				t.Errorf("%+v", b)
			}
		}
		return names
	}
	all := []string{"a calls/hour k1 1", "b calls/day k1 7", "b calls/hour k1 1", "b calls/hour k2 1"}
	if got := list(budget.Filter{}, 10); !slices.Equal(got, all) {
		t.Errorf("all: %q", got)
	}
	if got := list(budget.Filter{}, 2); !slices.Equal(got, all[:2]) {
		t.Errorf("two: %q", got)
	}
	if got := list(budget.Filter{Budget: "b"}, 10); !slices.Equal(got, all[1:]) {
		t.Errorf("of b: %q", got)
	}
	if got := list(budget.Filter{Key: "k1"}, 10); !slices.Equal(got, all[:3]) {
		t.Errorf("of k1: %q", got)
	}
	if got := list(budget.Filter{Budget: "b", Key: "k2"}, 10); !slices.Equal(got, all[3:]) {
		t.Errorf("of b and k2: %q", got)
	}
}

func foreignKeys(t *testing.T, s []budget.Store) {
	keys := []string{"", "a\x00b", "a\x00c", "\xff\xfe", "{x}", "a'b\";--", "ключ", "a:b", "\n", string(make([]byte, budget.MaxKey))}
	for i, key := range keys {
		want(t, fmt.Sprintf("used of %.20q", key), charge(t, s[0], Bill(fmt.Sprint(i), Hour("b", key, 1)))[0].Used, 1)
	}
	for i, key := range keys {
		refused(t, s[0], Bill(fmt.Sprint("again", i), Hour("b", key, 1)))
	}
	list, err := s[0].Usage(t.Context(), Noon.Add(time.Minute), budget.Filter{Budget: "b"}, 100)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	for i, b := range list {
		if i >= len(keys) || b.Key != keys[i] {
			t.Errorf("listed %d: %.20q", i, b.Key)
		}
	}
	want(t, "listed", int64(len(list)), int64(len(keys)))
}

func badBills(t *testing.T, s []budget.Store) {
	for name, spoil := range map[string]func(*budget.Bill){
		"no id":         func(b *budget.Bill) { b.Call = "" },
		"no charge":     func(b *budget.Bill) { b.Charges = nil },
		"no amount":     func(b *budget.Bill) { b.Charges[0].Amount = 0 },
		"below zero":    func(b *budget.Bill) { b.Charges[0].Amount = -1 },
		"too much":      func(b *budget.Bill) { b.Charges[0].Amount = budget.MaxAmount + 1 },
		"least":         func(b *budget.Bill) { b.Charges[0].Least = 2 },
		"limit":         func(b *budget.Bill) { b.Charges[0].Limit = -2 },
		"past":          func(b *budget.Bill) { b.At = Noon.Add(time.Hour) },
		"to come":       func(b *budget.Bill) { b.At = Noon.Add(-time.Millisecond) },
		"empty window":  func(b *budget.Bill) { b.Charges[0].End = b.Charges[0].Start },
		"same counters": func(b *budget.Bill) { b.Charges = append(b.Charges, b.Charges[0]) },
		"round":         func(b *budget.Bill) { b.Round = -1 },
		"long key":      func(b *budget.Bill) { b.Charges[0].Key = string(make([]byte, budget.MaxKey+1)) },
	} {
		b := Bill("a", Hour("b", "k", 5))
		spoil(&b)
		_, err := s[0].Charge(t.Context(), b)
		if _, refusal := errors.AsType[*budget.Refusal](err); err == nil || refusal {
			t.Errorf("%s: %v", name, err)
		}
	}
	want(t, "used", used(t, s[0], "b", "k"), 0)
}

func endedContext(t *testing.T, s []budget.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s[0].Charge(ctx, Bill("a", Hour("b", "k", 5))); err == nil {
		want(t, "used", used(t, s[0], "b", "k"), 1)
	} else if _, refusal := errors.AsType[*budget.Refusal](err); refusal {
		t.Errorf("an ended context is a refusal: %v", err)
	}
	want(t, "used, by the same bill", charge(t, s[0], Bill("a", Hour("b", "k", 5)))[0].Used, 1)
}

func oppositeOrders(t *testing.T, s []budget.Store) {
	var all sync.WaitGroup
	for i := range 60 {
		a, b := Hour("a", "k", 1000), Hour("b", "k", 1000)
		if i%2 == 1 {
			a, b = b, a
		}
		all.Go(func() { charge(t, s[i%len(s)], Bill(fmt.Sprint(i), a, b)) })
	}
	all.Wait()
	want(t, "used of a", used(t, s[0], "a", "k"), 60)
	want(t, "used of b", used(t, s[0], "b", "k"), 60)
}

func manyCounters(t *testing.T, s []budget.Store) {
	const bills = 24
	var all sync.WaitGroup
	for i := range bills {
		all.Go(func() {
			var charges []budget.Charge
			for n := range budget.MaxCharges {
				charges = append(charges, Hour(fmt.Sprint("b", n), fmt.Sprint("k", n*i%7), 1000))
			}
			charge(t, s[i%len(s)], Bill(fmt.Sprint(i), charges...))
		})
	}
	all.Wait()
	var sum int64
	list, err := s[0].Usage(t.Context(), Noon.Add(time.Minute), budget.Filter{}, 10000)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range list {
		sum += b.Used
	}
	want(t, "used in all", sum, bills*budget.MaxCharges)
}
