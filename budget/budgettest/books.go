package budgettest

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/toolgate/toolgate/budget"
)

// books are what a store holds. They do not change.
type books struct {
	used map[slot]int64         // of the windows where any is
	open map[budget.Key]account // the bills that are mentioned again
}

// slot is a window of a counter.
type slot struct {
	budget.Counter
	start, end time.Time
}

// account is what is known of a bill.
type account struct {
	taken    []int64 // nil: it was not charged
	settled  bool
	mentions int // so far
}

func (b *books) equal(other *books) bool {
	return maps.Equal(b.used, other.used) && maps.EqualFunc(b.open, other.open, func(x, y account) bool {
		return x.settled == y.settled && x.mentions == y.mentions && slices.Equal(x.taken, y.taken)
	})
}

// after returns the books that there may be after an access: none if they do not explain its
// answers.
func (b *books) after(a *Access, mentions map[budget.Key]int) (may []any) {
	if a.Lost {
		without := b.clone()
		for _, o := range a.Orders {
			without.note(o.Bill.Key, without.open[o.Bill.Key], mentions)
		}
		may = append(may, without)
	}
	next := b.clone()
	for _, o := range a.Orders {
		if !next.take(o, a.Lost, mentions) {
			return may
		}
	}
	return append(may, next)
}

func (b *books) clone() *books {
	next := &books{used: maps.Clone(b.used), open: maps.Clone(b.open)}
	if next.used == nil {
		next.used, next.open = make(map[slot]int64), make(map[budget.Key]account)
	}
	return next
}

// note notes what is known of a bill, as long as it is mentioned again.
func (b *books) note(key budget.Key, a account, mentions map[budget.Key]int) {
	if a.mentions++; a.mentions == mentions[key] {
		delete(b.open, key)
		return
	}
	b.open[key] = a
}

// take executes an order. It tells whether its answer is that of a store with these books, which
// is not asked of one that was lost.
func (b *books) take(o *budget.Order, lost bool, mentions map[budget.Key]int) bool {
	account := b.open[o.Bill.Key]
	agrees := lost
	switch {
	case o.Settle:
		agrees = true
		if account.taken != nil && !account.settled {
			account.settled = true
			for i := range account.taken {
				b.add(&o.Bill.Charges[i], -budget.Rest(account.taken[i], o.Used[i]))
			}
		}
	case account.taken != nil:
		agrees = agrees || b.granted(o, account.taken)
	default:
		taken, refused := b.fit(o.Bill)
		if refused != nil {
			r, _ := errors.AsType[*budget.Refusal](o.Err)
			agrees = agrees || r != nil && r.Counter == refused.Counter && r.Used == refused.Used
			break
		}
		account.taken = taken
		for i := range taken {
			b.add(&o.Bill.Charges[i], taken[i])
		}
		agrees = agrees || b.granted(o, taken)
	}
	b.note(o.Bill.Key, account, mentions)
	return agrees
}

// fit returns what a bill takes, or its refusal.
func (b *books) fit(bill *budget.Bill) (taken []int64, refused *budget.Refusal) {
	for i := range bill.Charges {
		c := &bill.Charges[i]
		used := b.usage(c, bill.At)
		got := c.Fit(used)
		if got == 0 {
			return nil, c.Refuse(used, c.End)
		}
		taken = append(taken, got)
	}
	return taken, nil
}

// granted tells whether the answer to a charge says what was taken, and what is used with that.
func (b *books) granted(o *budget.Order, taken []int64) bool {
	if o.Err != nil || len(o.Balances) != len(taken) {
		return false
	}
	for i := range taken {
		if got := &o.Balances[i]; got.Taken != taken[i] || got.Used != b.usage(&o.Bill.Charges[i], o.Bill.At) {
			return false
		}
	}
	return true
}

// usage returns what counts for a charge at a time: what is in windows that have not ended.
func (b *books) usage(c *budget.Charge, at time.Time) (used int64) {
	for s, n := range b.used {
		if s.Counter == c.Counter && s.start.Before(c.End) && s.end.After(at) {
			used += n
		}
	}
	return used
}

func (b *books) add(c *budget.Charge, amount int64) {
	s := slot{c.Counter, c.Start.UTC(), c.End.UTC()}
	if b.used[s] += amount; b.used[s] == 0 {
		delete(b.used, s)
	}
}

func (b *books) totals() Totals {
	all := make(Totals)
	for s, n := range b.used {
		all[s.Counter] += n
	}
	return all
}
