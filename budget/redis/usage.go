package redis

import (
	"cmp"
	"context"
	_ "embed" // the script
	"fmt"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/toolgate/toolgate/budget"
)

//go:embed usage.lua
var usageText string

var usageScript = goredis.NewScript(windowsText + usageText)

const (
	// usagePage is how many counters one script call reads, because it blocks the
	// server.
	usagePage = 1000
	// maxCounters bounds the counters that are read for one list.
	maxCounters = 1_000_000
)

// Usage implements [budget.Store]. Above a thousand counters it is not atomic: it reads
// them by the thousand.
func (b *Budgets) Usage(ctx context.Context, at time.Time, f budget.Filter, limit int) ([]budget.Balance, error) {
	prefix := ""
	if f.Budget != "" {
		prefix = f.Budget + "\x00"
	}
	var all []budget.Balance
	for from := 0; from < maxCounters; from += usagePage {
		got, err := b.run(ctx, usageScript, []string{epochKey, indexKey}, []any{"", at.UnixMilli(), from, usagePage, prefix})
		if err != nil {
			return nil, fmt.Errorf("read budgets in Redis: %w", err)
		}
		page, looked, err := balances(got)
		if err != nil {
			return nil, err
		}
		for _, one := range page {
			if f.Key == "" || f.Key == one.Key {
				all = append(all, one)
			}
		}
		if looked < usagePage {
			break
		}
	}
	slices.SortFunc(all, func(a, b budget.Balance) int {
		return cmp.Or(cmp.Compare(a.Budget, b.Budget), cmp.Compare(a.Measure, b.Measure), cmp.Compare(a.Key, b.Key))
	})
	all = slices.CompactFunc(all, func(a, b budget.Balance) bool { return a.Counter == b.Counter }) // seen twice while the index changed
	return all[:min(len(all), max(limit, 0))], nil
}

// balances parses the answer of the script.
func balances(got []any) (all []budget.Balance, looked int64, err error) {
	if len(got) < 2 || got[0] != "used" || len(got)%4 != 2 {
		return nil, 0, fmt.Errorf("read budgets in Redis: an answer of %d parts is none", len(got))
	}
	looked, ok := got[1].(int64)
	for i := 2; i < len(got) && ok; i += 4 {
		var counter budget.Counter
		name, _ := got[i].(string)
		used, _ := got[i+1].(int64)
		start, _ := got[i+2].(int64)
		var reset int64
		if reset, ok = got[i+3].(int64); ok {
			if counter, ok = counterOf(name); ok {
				all = append(all, budget.Balance{
					Counter: counter, Used: used, Start: time.UnixMilli(start).UTC(), ResetAt: time.UnixMilli(reset).UTC(),
				})
			}
		}
	}
	if !ok {
		return nil, 0, fmt.Errorf("read budgets in Redis: the answer is none")
	}
	return all, looked, nil
}
