//go:build unix

package sqlstore_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/budget/sqlstore"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
)

// BenchmarkCharge charges calls of 64 callers, each with counters of its own.
func BenchmarkCharge(b *testing.B) {
	for _, durable := range []bool{true, false} {
		for _, budgets := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("durable=%t/budgets=%d", durable, budgets), func(b *testing.B) {
				s := sqlstore.New(storetest.Opened(b, store.Options{Path: filepath.Join(b.TempDir(), "store.db"), Durable: durable}), nil)
				var calls, callers atomic.Int64
				b.SetParallelism(32)
				b.ReportAllocs()
				before := cpu(b)
				defer func() { b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op") }()
				b.RunParallel(func(p *testing.PB) {
					who := fmt.Sprint("caller", callers.Add(1))
					for p.Next() {
						charges := make([]budget.Charge, budgets)
						for i := range charges {
							charges[i] = budgettest.Hour(fmt.Sprint("b", i), who, budget.NoLimit)
						}
						bill := budgettest.Bill(fmt.Sprintf("replica-%d", calls.Add(1)), charges...)
						bill.Once = true // as the first round of a call is
						if _, err := s.Charge(b.Context(), bill); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}

// cpu returns the time that this process has used.
func cpu(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
