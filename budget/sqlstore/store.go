package sqlstore

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/internal/batch"
	"github.com/toolgate/toolgate/internal/store"
)

// Store is a [budget.Store] in a gateway's store. The zero value refuses everything.
type Store struct {
	budgets *store.Budgets
	log     *slog.Logger
	group   batch.Group[*budget.Order]

	counters map[budget.Counter]*counter // cache of a file's counters; used only by the leader of a group
}

// New returns the budgets of a store. A nil logger discards errors that no caller gets.
func New(s *store.Store, log *slog.Logger) *Store {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	own := &Store{budgets: s.Budgets(), log: log}
	apply, most := own.applyFile, fileGroup
	if own.budgets.Shared() {
		apply, most = own.applyShared, sharedGroup
	}
	own.group.Init(apply, (*budget.Order).Weight, most, groupDelay, turnTimeout)
	return own
}

// errZero is the error of a zero Store.
var errZero = errors.New("there is no store for budgets")

// Exact implements [budget.Store].
func (s *Store) Exact() bool { return s.budgets != nil && s.budgets.Durable() }

// Charge implements [budget.Store].
func (s *Store) Charge(ctx context.Context, b budget.Bill) ([]budget.Balance, error) {
	if s.budgets == nil {
		return nil, errZero
	}
	if err := b.Check(); err != nil {
		return nil, err
	}
	o := &budget.Order{Bill: &b}
	if err := s.group.Do(ctx, o); err != nil {
		return nil, err
	}
	return o.Balances, o.Err
}

// Settle implements [budget.Store].
func (s *Store) Settle(ctx context.Context, b budget.Bill, used []int64) error {
	switch {
	case s.budgets == nil:
		return errZero
	case used != nil && len(used) != len(b.Charges):
		return errors.New("the settlement is not of this bill")
	}
	if err := b.Check(); err != nil {
		return err
	}
	if used == nil {
		used = make([]int64, len(b.Charges))
	}
	o := &budget.Order{Bill: &b, Settle: true, Used: used}
	if err := s.group.Do(ctx, o); err != nil {
		return err
	}
	return o.Err
}

// Usage implements [budget.Store].
func (s *Store) Usage(ctx context.Context, at time.Time, f budget.Filter, limit int) ([]budget.Balance, error) {
	if s.budgets == nil {
		return nil, errZero
	}
	totals, err := s.budgets.Totals(ctx, at.UnixMilli(), f.Budget, f.Key, limit)
	if err != nil {
		return nil, err
	}
	all := make([]budget.Balance, len(totals))
	for i, t := range totals {
		all[i] = budget.Balance{
			Counter: budget.Counter{Budget: t.Budget, Measure: t.Measure, Key: t.Owner},
			Used:    t.Used, Start: instant(t.Start), ResetAt: instant(t.End),
		}
	}
	return all, nil
}

func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// retention is how long windows are kept after their end, by the suffix of the measure,
// in case the clock is set back.
var retention = map[string]time.Duration{
	"hour":      2 * 24 * time.Hour,
	"day":       62 * 24 * time.Hour,
	"month":     400 * 24 * time.Hour,
	"sliding:%": 2 * 24 * time.Hour,
}

// Run removes bills every pruneEvery, using an index. It removes windows every
// windowsEach times, reading all of them. It makes at most pruneLimit writes at once,
// so that others have their turn.
const (
	pruneEvery  = time.Minute
	windowsEach = 60
	pruneLimit  = 50
)

// Run removes expired bills and windows until the context ends.
func (s *Store) Run(ctx context.Context) error {
	if s.budgets == nil {
		return errZero
	}
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		if err := s.prune(ctx, time.Now(), n%windowsEach == 0); err != nil && ctx.Err() == nil {
			s.log.Warn("budgets of the past are not forgotten", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// prune removes expired bills, and the windows if set.
func (s *Store) prune(ctx context.Context, now time.Time, windows bool) error {
	forget := func(some func() (int64, error)) error {
		for range pruneLimit {
			if n, err := some(); err != nil || n == 0 || ctx.Err() != nil {
				return err
			}
		}
		return nil
	}
	err := forget(func() (int64, error) { return s.budgets.PruneBills(ctx, now.UnixMilli()) })
	if !windows {
		return err
	}
	for suffix, keep := range retention {
		err = errors.Join(err, forget(func() (int64, error) {
			return s.budgets.PruneWindows(ctx, suffix, now.Add(-keep).UnixMilli())
		}))
	}
	return err
}
