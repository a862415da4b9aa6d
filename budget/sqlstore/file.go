package sqlstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/internal/store"
)

// fileGroup bounds the charges of one transaction.
const fileGroup = 256

// groupDelay is how long a transaction waits for more charges under load.
const groupDelay = time.Millisecond

// turnTimeout bounds how long a charge waits for its turn.
const turnTimeout = 5 * time.Second

// errRepeated ends a group that contains a known bill.
var errRepeated = errors.New("a bill of the group is known already")

// Limits of the counters that are cached between groups, and of their windows.
const (
	maxCounters = 16384
	maxWindows  = 4 * budget.Slots
)

// applyFile applies orders in one transaction. This process is the only writer of the
// file, so cached counters stay true, and each is read once. Only the leader of a group
// calls it.
func (s *Store) applyFile(ctx context.Context, orders []*budget.Order) error {
	if s.counters == nil || len(s.counters) > maxCounters {
		s.counters = make(map[budget.Counter]*counter)
	}
	err := s.applyAs(ctx, orders, false)
	if errors.Is(err, errRepeated) { // rare: a round that is tried again
		s.counters = make(map[budget.Counter]*counter)
		err = s.applyAs(ctx, orders, true)
	}
	if err != nil {
		s.counters = nil // the cache may differ from the file now
	}
	return err
}

// applyAs applies orders. With repeated some bills may be known, else all are new.
func (s *Store) applyAs(ctx context.Context, orders []*budget.Order, repeated bool) error {
	l := ledger{counters: s.counters, repeated: repeated}
	return s.budgets.Do(ctx, func(tx *store.BudgetTx) error {
		l.tx = tx
		return l.apply(orders)
	})
}

// ledger is the part of the budgets that a group of orders needs.
type ledger struct {
	tx       *store.BudgetTx
	counters map[budget.Counter]*counter
	changed  []*window

	bills    []store.BudgetBill // granted, but not written yet
	repeated bool               // bills are written one by one, because some may be known
}

// counter caches one counter: all windows that end after a time.
type counter struct {
	since   int64
	windows []*window
}

type window struct {
	store.BudgetWindow
	changed bool // not written yet
}

// apply applies orders in sequence and writes the changes.
func (l *ledger) apply(orders []*budget.Order) error {
	for _, o := range orders {
		apply := l.charge
		if o.Settle {
			apply = l.settle
		}
		o.Balances, o.Err = nil, nil
		if err := apply(o); err != nil {
			return err
		}
	}
	if err := l.write(); err != nil {
		return err
	}
	for _, w := range l.changed {
		if err := l.tx.Set(&w.BudgetWindow); err != nil {
			return err
		}
		w.changed = false
	}
	return nil
}

// write writes the granted bills, which must be new.
func (l *ledger) write() error {
	bills := l.bills
	l.bills = nil
	added, err := l.tx.AddBills(bills...)
	if err == nil && added != len(bills) {
		err = errRepeated
	}
	return err
}

// grant records the bill of an order, unless nobody will need it. It returns false for
// a known bill.
func (l *ledger) grant(b *budget.Bill, taken []int64) (added bool, err error) {
	if b.Once {
		return true, nil
	}
	bill := store.BudgetBill{Call: b.Call, Round: b.Round, Expires: b.Until.UnixMilli(), Taken: taken}
	if !l.repeated {
		l.bills = append(l.bills, bill)
		return true, nil
	}
	n, err := l.tx.AddBills(bill)
	return n == 1, err
}

// bill returns the record of a bill that was charged before; nil without one.
func (l *ledger) bill(b *budget.Bill) (*store.BudgetBill, error) {
	if b.Once {
		return nil, nil
	}
	if err := l.write(); err != nil {
		return nil, err
	}
	return l.tx.Bill(b.Call, b.Round)
}

// counter returns the counter of a bill's charge.
func (l *ledger) counter(c *budget.Charge, b *budget.Bill) (*counter, error) {
	at := b.At.UnixMilli()
	known := l.counters[c.Counter]
	if known != nil && known.since <= at && len(known.windows) <= maxWindows {
		return known, nil
	}
	own := &counter{since: at}
	list, err := l.tx.Windows(store.BudgetCounter{Budget: c.Budget, Measure: c.Measure, Owner: c.Key}, at)
	if err != nil {
		return nil, err
	}
	for i := range list {
		own.windows = append(own.windows, &window{BudgetWindow: list[i]})
	}
	if known != nil { // recent changes are not in the file yet
		for _, w := range known.windows {
			if w.changed {
				own.put(w)
			}
		}
	}
	l.counters[c.Counter] = own
	return own, nil
}

// put replaces or adds a window.
func (c *counter) put(w *window) {
	if i := c.find(w.Start, w.End); i >= 0 {
		c.windows[i] = w
		return
	}
	c.windows = append(c.windows, w)
}

// find returns the index of a window, or -1.
func (c *counter) find(start, end int64) int {
	return slices.IndexFunc(c.windows, func(w *window) bool { return w.Start == start && w.End == end })
}

// charge charges a bill, or refuses it.
func (l *ledger) charge(o *budget.Order) error {
	b := o.Bill
	taken := make([]int64, len(b.Charges))
	var refusal *budget.Refusal
	for i := range b.Charges {
		c := &b.Charges[i]
		own, err := l.counter(c, b)
		if err != nil {
			return err
		}
		balance := own.balance(c, b)
		if taken[i] = c.Fit(balance.Used); taken[i] == 0 {
			refusal = c.Refuse(balance.Used, balance.ResetAt)
			break
		}
	}
	if refusal == nil {
		added, err := l.grant(b, taken)
		if err != nil {
			return err
		}
		if added {
			for i := range b.Charges {
				l.add(&b.Charges[i], taken[i])
			}
			return l.balances(o, taken)
		}
	}
	known, err := l.bill(b)
	switch {
	case err != nil:
		return err
	case known != nil && len(known.Taken) == len(b.Charges):
		return l.balances(o, known.Taken)
	case known != nil || refusal == nil:
		o.Err = budget.ErrOther
	default:
		o.Err = refusal
	}
	return nil
}

// balances sets the balances of a charge.
func (l *ledger) balances(o *budget.Order, taken []int64) error {
	o.Balances = make([]budget.Balance, len(taken))
	for i := range o.Bill.Charges {
		own, err := l.counter(&o.Bill.Charges[i], o.Bill)
		if err != nil {
			return err
		}
		o.Balances[i] = own.balance(&o.Bill.Charges[i], o.Bill)
		o.Balances[i].Taken = taken[i]
	}
	return nil
}

// settle settles a bill, once.
func (l *ledger) settle(o *budget.Order) error {
	b := o.Bill
	taken, err := l.open(b)
	if err != nil || taken == nil {
		return err
	}
	for i := range b.Charges {
		if back := budget.Rest(taken[i], o.Used[i]); back > 0 {
			if _, err := l.counter(&b.Charges[i], b); err != nil {
				return err
			}
			l.add(&b.Charges[i], -back)
		}
	}
	return nil
}

// open returns what was taken for an unsettled bill and marks it as settled; nil where
// there is nothing to settle.
func (l *ledger) open(b *budget.Bill) (taken []int64, err error) {
	if b.Once {
		for i := range b.Charges {
			taken = append(taken, b.Charges[i].Amount)
		}
		return taken, nil
	}
	known, err := l.bill(b)
	if err != nil || known == nil || known.Settled || len(known.Taken) != len(b.Charges) {
		return nil, err
	}
	return known.Taken, l.tx.SettleBill(b.Call, b.Round)
}

// add changes the window of a charge, whose counter is cached. It gives back at most
// what the window has.
func (l *ledger) add(c *budget.Charge, amount int64) {
	own, start, end := l.counters[c.Counter], c.Start.UnixMilli(), c.End.UnixMilli()
	i := own.find(start, end)
	if i < 0 {
		if amount < 0 { // so old that it was removed
			return
		}
		i = len(own.windows)
		own.windows = append(own.windows, &window{BudgetWindow: store.BudgetWindow{
			BudgetCounter: store.BudgetCounter{Budget: c.Budget, Measure: c.Measure, Owner: c.Key}, Start: start, End: end,
		}})
	}
	w := own.windows[i]
	if w.Used = max(w.Used+amount, 0); !w.changed {
		w.changed = true
		l.changed = append(l.changed, w)
	}
}

// balance returns the usage that counts for a charge of a bill.
func (c *counter) balance(charge *budget.Charge, bill *budget.Bill) budget.Balance {
	b := budget.Balance{Counter: charge.Counter, Start: charge.Start, ResetAt: charge.End}
	at, before := bill.At.UnixMilli(), charge.End.UnixMilli()
	var start, end int64
	for _, w := range c.windows {
		if w.Start >= before || w.End <= at || w.Used <= 0 {
			continue
		}
		if b.Used == 0 || w.Start < start {
			start = w.Start
		}
		if b.Used == 0 || w.End < end {
			end = w.End
		}
		b.Used += w.Used
	}
	if b.Used > 0 {
		b.Start, b.ResetAt = instant(start), instant(end)
	}
	return b
}
