package budgettest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/budget"
)

// Memory is a [budget.Store] in memory. The zero value is empty and ready.
type Memory struct {
	// Fail, if set, is called before each operation, which returns its error.
	Fail func() error

	mu       sync.Mutex
	counters map[budget.Counter][]window
	bills    map[budget.Key]*bill
}

type window struct {
	start, end time.Time
	used       int64
}

type bill struct {
	taken   []int64
	settled bool
}

// Exact implements [budget.Store].
func (m *Memory) Exact() bool { return true }

// Charge implements [budget.Store].
func (m *Memory) Charge(ctx context.Context, b budget.Bill) ([]budget.Balance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	if err := b.Check(); err != nil {
		return nil, err
	}
	if known := m.bills[b.Key]; known != nil && len(known.taken) == len(b.Charges) {
		return m.balances(&b, known.taken), nil
	} else if known != nil {
		return nil, budget.ErrOther
	}
	taken := make([]int64, len(b.Charges))
	for i := range b.Charges {
		c := &b.Charges[i]
		balance := m.balance(c, b.At)
		if taken[i] = c.Fit(balance.Used); taken[i] == 0 {
			return nil, c.Refuse(balance.Used, balance.ResetAt)
		}
	}
	for i := range b.Charges {
		m.add(&b.Charges[i], taken[i])
	}
	if m.bills == nil {
		m.bills = make(map[budget.Key]*bill)
	}
	m.bills[b.Key] = &bill{taken: taken}
	return m.balances(&b, taken), nil
}

// Settle implements [budget.Store].
func (m *Memory) Settle(ctx context.Context, b budget.Bill, used []int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return err
	}
	known := m.bills[b.Key]
	if known == nil || known.settled {
		return nil
	}
	known.settled = true
	for i := range b.Charges {
		var spent int64
		if used != nil {
			spent = used[i]
		}
		m.add(&b.Charges[i], -budget.Rest(known.taken[i], spent))
	}
	return nil
}

// Usage implements [budget.Store].
func (m *Memory) Usage(ctx context.Context, at time.Time, f budget.Filter, limit int) ([]budget.Balance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	var all []budget.Balance
	for _, counter := range slices.SortedFunc(maps.Keys(m.counters), func(a, b budget.Counter) int {
		return cmp.Or(cmp.Compare(a.Budget, b.Budget), cmp.Compare(a.Measure, b.Measure), cmp.Compare(a.Key, b.Key))
	}) {
		if f.Budget != "" && f.Budget != counter.Budget || f.Key != "" && f.Key != counter.Key {
			continue
		}
		if b := m.sum(counter, at, at.Add(time.Millisecond)); b.Used > 0 && len(all) < limit {
			all = append(all, b)
		}
	}
	return all, nil
}

// ready returns why nothing can be done; mu is held.
func (m *Memory) ready(ctx context.Context) error {
	if m.Fail != nil {
		if err := m.Fail(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// sum returns the usage of a counter at a time, in windows that begin before another.
func (m *Memory) sum(counter budget.Counter, at, before time.Time) budget.Balance {
	b := budget.Balance{Counter: counter}
	for _, w := range m.counters[counter] {
		if !w.start.Before(before) || !w.end.After(at) || w.used == 0 {
			continue
		}
		b.Used += w.used
		if b.Start.IsZero() || w.start.Before(b.Start) {
			b.Start = w.start
		}
		if b.ResetAt.IsZero() || w.end.Before(b.ResetAt) {
			b.ResetAt = w.end
		}
	}
	return b
}

// balance returns the usage that counts for a charge.
func (m *Memory) balance(c *budget.Charge, at time.Time) budget.Balance {
	b := m.sum(c.Counter, at, c.End)
	if b.Used == 0 {
		b.Start, b.ResetAt = c.Start, c.End
	}
	return b
}

func (m *Memory) balances(b *budget.Bill, taken []int64) []budget.Balance {
	all := make([]budget.Balance, len(b.Charges))
	for i := range b.Charges {
		all[i] = m.balance(&b.Charges[i], b.At)
		all[i].Taken = taken[i]
	}
	return all
}

func (m *Memory) add(c *budget.Charge, amount int64) {
	if m.counters == nil {
		m.counters = make(map[budget.Counter][]window)
	}
	list := m.counters[c.Counter]
	i := slices.IndexFunc(list, func(w window) bool { return w.start.Equal(c.Start) && w.end.Equal(c.End) })
	if i < 0 {
		i, list = len(list), append(list, window{start: c.Start, end: c.End})
	}
	list[i].used += amount
	m.counters[c.Counter] = list
}
