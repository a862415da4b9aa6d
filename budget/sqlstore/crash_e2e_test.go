//go:build e2e

package sqlstore_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/budget/sqlstore"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
)

// Whenever a process is killed, the next one finds everything charged that was
// delivered, and besides that at most the calls in flight.
func TestKilledProcessHasChargedWhatItDelivered(t *testing.T) {
	for name, where := range map[string]func(*testing.T) (address string, o store.Options){
		"file": func(t *testing.T) (string, store.Options) {
			path := filepath.Join(t.TempDir(), "store.db")
			return path, store.Options{Path: path, Durable: true}
		},
		"postgres": func(t *testing.T) (string, store.Options) {
			url := shared.SchemaURL(t)
			return url, store.Options{URL: url, Durable: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, o := where(t)
			var delivered int64
			for n := range int64(*kills) {
				delivered += killed(t, address, strconv.FormatInt(n, 10))
				s, err := store.Open(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				b := sqlstore.New(s, nil)
				most := (n + 1) * inFlight // of all that were killed
				if calls := used(t, b, "calls"); calls < delivered || calls > delivered+most {
					t.Fatalf("kill %d: %d calls were delivered, %d are charged", n, delivered, calls)
				}
				if bytes := used(t, b, "bytes"); bytes < delivered*spent || bytes > delivered*spent+most*reserved {
					t.Fatalf("kill %d: %d calls were delivered, %d bytes are charged", n, delivered, bytes)
				}
				if err := s.Check(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A server that is killed under load loses no granted charge, and later charges add up.
func TestServerIsKilledUnderLoad(t *testing.T) {
	server := storetest.StartPostgres(t)
	url := server.URL(t)
	a := sqlstore.New(storetest.Opened(t, store.Options{URL: url, Durable: true}), nil)
	b := sqlstore.New(storetest.Opened(t, store.Options{URL: url, Durable: true}), nil)
	var granted, failed, sent atomic.Int64
	for crash := range 2 {
		var all sync.WaitGroup
		failed.Store(0)
		before := granted.Load()
		for g, s := range []*sqlstore.Store{a, b, a, b} {
			all.Go(func() {
				for i := 0; failed.Load() < 8; i++ {
					sent.Add(1)
					_, err := s.Charge(t.Context(), budgettest.Bill(fmt.Sprintf("%d-%d-%d", crash, g, i), budgettest.Hour("b", "k", budget.NoLimit)))
					if err == nil {
						granted.Add(1)
						continue
					}
					failed.Add(1)
					if !strings.Contains(err.Error(), "server") {
						t.Errorf("error %q does not speak of the server", err)
					}
				}
			})
		}
		testwait.Until(t, turnTimeout, "a hundred more calls are granted", func() bool { return granted.Load() > before+100 })
		server.Kill(t)
		all.Wait()
		server.Start(t)
		if !attempt(t, a, fmt.Sprint("after", crash), "") {
			t.Error("the first charge after the crash")
		}
		granted.Add(1)
		sent.Add(1)
	}
	if got := used(t, b, "b"); got < granted.Load() || got > granted.Load()+16 {
		t.Errorf("%d of %d calls were granted, %d are used", granted.Load(), sent.Load(), got)
	}
}
