package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/budget/redis"
	"github.com/toolgate/toolgate/budget/redis/redistest"
	"github.com/toolgate/toolgate/internal/testwait"
)

// memory stores an epoch, like the store of a gateway.
type memory struct {
	mu    sync.Mutex
	epoch string
	err   error
}

func (m *memory) Known(context.Context) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch, m.err
}

func (m *memory) Remember(_ context.Context, epoch string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch = epoch
	return m.err
}

// stores returns handles of replicas that share an epoch.
func stores(t *testing.T, s *redistest.Server, n int) []budget.Store {
	t.Helper()
	shared := new(memory)
	all := make([]budget.Store, n)
	for i := range all {
		all[i] = client(t, s.Address()).Budgets(shared)
	}
	return all
}

func TestSuite(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--databases", "64", "--appendfsync", "no")
	var databases atomic.Int64
	budgettest.Run(t, func(t *testing.T, n int) []budget.Store {
		address := strings.TrimSuffix(s.Address(), "/0") + fmt.Sprint("/", databases.Add(1))
		shared := new(memory)
		all := make([]budget.Store, n)
		for i := range all {
			all[i] = client(t, address).Budgets(shared)
		}
		return all
	})
}

func TestGroupsAreAsIfAlone(t *testing.T) {
	t.Parallel()
	b := client(t, redistest.Start(t).Address()).Budgets(new(memory))
	budgettest.Groups(t, func(ctx context.Context, orders []*budget.Order) error { return redis.ApplyTogether(ctx, b, orders) })
}

// Of a thousand clients of three replicas exactly as many are served as the budget
// allows.
func TestReplicasShareABudget(t *testing.T) {
	t.Parallel()
	const limit, clients = 100, 400
	s := stores(t, redistest.Start(t), 3)
	var granted atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			_, err := s[i%3].Charge(t.Context(), budgettest.Bill(fmt.Sprint(i), budgettest.Hour("b", "k", limit)))
			switch _, refused := errors.AsType[*budget.Refusal](err); {
			case err == nil:
				granted.Add(1)
			case !refused:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if granted.Load() != limit {
		t.Errorf("%d were granted, want %d", granted.Load(), limit)
	}
}

// charged charges one bill and returns the error.
func charged(t *testing.T, s budget.Store, call string) error {
	t.Helper()
	_, err := s.Charge(t.Context(), budgettest.Bill(call, budgettest.Hour("b", "k", 10)))
	return err
}

func usedOf(t *testing.T, s budget.Store) int64 {
	t.Helper()
	list, err := s.Usage(t.Context(), budgettest.Noon.Add(time.Minute), budget.Filter{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		return 0
	}
	return list[0].Used
}

// A server that has lost its counters denies at every replica, until somebody decides
// to start again; then all continue.
func TestLostCountersDeny(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, *redistest.Server){
		"flushed":       func(t *testing.T, s *redistest.Server) { s.Do(t, "FLUSHALL") },
		"epoch gone":    func(t *testing.T, s *redistest.Server) { s.Do(t, "DEL toolgate:{budgets}:epoch") },
		"epoch changed": func(t *testing.T, s *redistest.Server) { s.Do(t, "SET toolgate:{budgets}:epoch other") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := stores(t, server, 2)
			if err := charged(t, s[0], "a"); err != nil {
				t.Fatal(err)
			}
			lose(t, server)
			for i, store := range s {
				for range 2 {
					if err := charged(t, store, "b"); !errors.Is(err, budget.ErrLost) {
						t.Errorf("replica %d: %v, want ErrLost", i, err)
					}
				}
				if err := store.Settle(t.Context(), budgettest.Bill("a", budgettest.Hour("b", "k", 10)), nil); !errors.Is(err, budget.ErrLost) {
					t.Errorf("settle: %v, want ErrLost", err)
				}
				if _, err := store.Usage(t.Context(), budgettest.Noon, budget.Filter{}, 1); !errors.Is(err, budget.ErrLost) {
					t.Errorf("usage: %v, want ErrLost", err)
				}
			}
			if err := s[1].(budget.Rebuilder).Rebuild(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i, store := range s {
				if err := charged(t, store, fmt.Sprint("after", i)); err != nil {
					t.Errorf("replica %d after it was rebuilt: %v", i, err)
				}
			}
			want := int64(2)
			if name != "flushed" { // what is there stays
				want = 3
			}
			if got := usedOf(t, s[0]); got != want {
				t.Errorf("used %d, want %d", got, want)
			}
		})
	}
}

// A gateway that starts while Redis has lost everything knows that from its own store;
// the very first gateway begins.
func TestEpochOutlivesTheGateway(t *testing.T) {
	t.Parallel()
	server, known := redistest.Start(t), new(memory)
	if err := charged(t, client(t, server.Address()).Budgets(known), "a"); err != nil {
		t.Fatal(err)
	}
	if known.epoch == "" {
		t.Fatal("no epoch is remembered")
	}
	server.Do(t, "FLUSHALL")
	if err := charged(t, client(t, server.Address()).Budgets(known), "b"); !errors.Is(err, budget.ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
	if err := charged(t, client(t, server.Address()).Budgets(new(memory)), "c"); err != nil {
		t.Errorf("a first gateway: %v", err)
	}
	if err := charged(t, client(t, server.Address()).Budgets(&memory{err: errors.New("locked")}), "d"); err == nil {
		t.Error("charged without knowing the epoch")
	}
}

// Granted charges survive a killed server that comes back; while it is down everything
// is denied.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendfsync", "always")
	s := stores(t, server, 1)[0]
	for i := range 3 {
		if err := charged(t, s, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill(t)
	if err := charged(t, s, "down"); err == nil {
		t.Fatal("granted by nobody")
	} else if _, refused := errors.AsType[*budget.Refusal](err); refused {
		t.Errorf("a server that is gone is a refusal: %v", err)
	}
	server.Restart(t)
	testwait.Until(t, patience, "calls are granted again", func() bool { return charged(t, s, "back") == nil })
	if got := usedOf(t, s); got != 4 {
		t.Errorf("used %d, want 4", got)
	}
}

// A server without memory denies whole bills, never half of one.
func TestServerOutOfMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := stores(t, server, 1)[0]
	two := func(call string) budget.Bill {
		return budgettest.Bill(call, budgettest.Hour("b", "k", 10), budgettest.Hour("c", "k", 10))
	}
	if _, err := s.Charge(t.Context(), two("a")); err != nil {
		t.Fatal(err)
	}
	server.Do(t, "CONFIG SET maxmemory 1mb")
	if _, err := s.Charge(t.Context(), two("b")); err == nil {
		t.Fatal("granted by a server without memory")
	}
	server.Do(t, "CONFIG SET maxmemory 0")
	if _, err := s.Charge(t.Context(), two("c")); err != nil {
		t.Fatal(err)
	}
	list, err := s.Usage(t.Context(), budgettest.Noon, budget.Filter{}, 10)
	if err != nil || len(list) != 2 || list[0].Used != 2 || list[1].Used != 2 {
		t.Errorf("used %+v, %v; want 2 of both", list, err)
	}
}

// A read-only replica denies.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	server, main := redistest.Start(t), redistest.Start(t)
	s := stores(t, server, 1)[0]
	if err := charged(t, s, "a"); err != nil {
		t.Fatal(err)
	}
	server.Do(t, fmt.Sprint("REPLICAOF 127.0.0.1 ", main.Port()))
	if err := charged(t, s, "b"); !goredis.IsReadOnlyError(err) { // at which the client leaves the connection
		t.Errorf("a server that only reads: %v", err)
	}
}

// A server that may drop counters is refused.
func TestEvictingServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	s := stores(t, server, 1)[0]
	if err := charged(t, s, "a"); !errors.Is(err, redis.ErrEvicts) {
		t.Errorf("%v, want ErrEvicts", err)
	}
	server.Do(t, "CONFIG SET maxmemory-policy noeviction")
	if err := charged(t, s, "a"); err != nil {
		t.Errorf("after the policy was changed: %v", err)
	}
}

// Everything except the epoch expires, and Usage finds what has not.
func TestEverythingExpires(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := stores(t, server, 1)[0]
	for i := range 30 {
		b := budgettest.Bill(fmt.Sprint(i), budgettest.Hour("b", fmt.Sprint("k", i), 10))
		if _, err := s.Charge(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	keys := 0
	for _, key := range server.Keys(t) {
		keys++
		lasting := key == "toolgate:{budgets}:epoch" || key == "toolgate:{budgets}:counters"
		if forever := server.Do(t, "PTTL "+key) == ":-1"; forever != lasting {
			t.Errorf("%s lasts for ever: %v", key, forever)
		}
		if !lasting && !strings.Contains(key, ":b:") {
			server.Do(t, "PEXPIRE "+key+" 1")
		}
	}
	if keys != 2+3*30 {
		t.Errorf("%d keys", keys)
	}
	server.Do(t, `EVAL "redis.call('ZADD',KEYS[1],1,redis.call('ZRANGE',KEYS[1],0,0)[1])" 1 toolgate:{budgets}:counters`)
	before := server.Do(t, "ZCARD toolgate:{budgets}:counters")
	if err := charged(t, s, "next"); err != nil {
		t.Fatal(err)
	}
	if after := server.Do(t, "ZCARD toolgate:{budgets}:counters"); before != ":30" || after != ":30" { // one went, one came
		t.Errorf("%s counters are listed, %s before", after, before)
	}
	if got := usedOf(t, s); got != 1 {
		t.Errorf("used %d of what has not expired, want 1", got)
	}
}

// A window counts until its end, to the millisecond.
func TestWindowEndsAtItsEnd(t *testing.T) {
	t.Parallel()
	s := stores(t, redistest.Start(t), 1)[0]
	at := func(call string, start, at time.Time) error {
		c := budgettest.Hour("b", "k", 1)
		c.Start, c.End = start, start.Add(time.Hour)
		_, err := s.Charge(t.Context(), budget.Bill{Key: budget.Key{Call: call}, At: at, Until: at.Add(time.Minute), Charges: []budget.Charge{c}})
		return err
	}
	end := budgettest.Noon.Add(time.Hour)
	if err := at("a", budgettest.Noon, budgettest.Noon); err != nil {
		t.Fatal(err)
	}
	if err := at("b", budgettest.Noon.Add(30*time.Minute), end.Add(-time.Millisecond)); err == nil {
		t.Error("a window ended a millisecond early")
	}
	if err := at("c", end, end); err != nil {
		t.Errorf("a window counts at its end: %v", err)
	}
}

// A window is removed when it ended so long ago that no clock can be that wrong, and
// not before.
func TestEndedWindowsAreForgotten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := stores(t, server, 1)[0]
	past := time.Now().Add(-30 * 24 * time.Hour).Truncate(time.Hour)
	hour := func(call string, start time.Time) {
		c := budgettest.Hour("b", "k", 10)
		c.Start, c.End = start, start.Add(time.Hour)
		b := budget.Bill{Key: budget.Key{Call: call}, At: start, Until: start.Add(time.Minute), Charges: []budget.Charge{c}}
		if _, err := s.Charge(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	windows := func() string {
		for _, key := range server.Keys(t) {
			if strings.Contains(key, ":w:") {
				return server.Do(t, "ZCARD "+key)
			}
		}
		return ""
	}
	hour("a", past)
	hour("b", past.Add(47*time.Hour))
	if got := windows(); got != ":2" {
		t.Errorf("%s windows are kept after two days less an hour, want 2", got)
	}
	hour("c", past.Add(50*time.Hour))
	if got := windows(); got != ":2" {
		t.Errorf("%s windows are kept after two days, want 2", got)
	}
	hour("d", time.Now().Truncate(time.Hour))
	hour("e", time.Now().Add(1000*time.Hour).Truncate(time.Hour)) // a clock that is far ahead
	if got := windows(); got != ":2" {
		t.Errorf("%s windows are kept, want that of now and the one to come", got)
	}
}
