//go:build e2e && !windows

package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/budget/redis/redistest"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
)

// However many clients call at once, through one gateway or through three that
// share a PostgreSQL or a Redis, exactly as many calls as the budget has reach the
// server.
func TestNoCallBeyondTheBudget(t *testing.T) {
	const limit = 100
	for name, shared := range map[string]string{"one gateway": "", "three that share a store": "postgres", "three that share a Redis": "redis"} {
		t.Run(name, func(t *testing.T) {
			url, calls := counted(t)
			database, memory, gateways := "", "", 3
			switch shared {
			case "":
				gateways = 1
			case "postgres":
				database = postgres.URL(t)
			default:
				memory = redistest.Start(t).Address()
			}
			var urls []string
			var first *home
			for range gateways {
				h := newHome(t)
				s, settings := spending(url, database, limit)
				if memory != "" {
					settings["redis"], settings["budgets_in"] = memory, "redis"
				}
				h.write(t, s, settings)
				_, at := h.up(t)
				urls = append(urls, at)
				if first == nil {
					first = h
				}
			}
			client := newClient(t)
			client.Timeout = 4 * patience
			var mu sync.Mutex
			outcomes := make(map[string]int)
			var all sync.WaitGroup
			for i := range max(*budgetClients, limit+10) {
				all.Go(func() {
					kind, err := callCount(t.Context(), client, urls[i%len(urls)])
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					outcomes[kind]++
				})
			}
			all.Wait()
			if calls.Load() != limit || outcomes["ok"] != limit || outcomes["budget"] != max(*budgetClients, limit+10)-limit {
				t.Errorf("%d calls reached the server, and clients saw %v; want %d", calls.Load(), outcomes, limit)
			}
			uses := first.uses(t)
			if len(uses) != 1 || uses[0].Used != limit || uses[0].Limit == nil || *uses[0].Limit != limit || uses[0].Budget != "total" {
				t.Errorf("listed %+v", uses)
			}
		})
	}
}

// A gateway that is killed with calls in flight has charged every call that reached
// the server, and besides those at most what was in flight.
func TestKilledGatewayHasChargedWhatItDelivered(t *testing.T) {
	const inFlight = 16
	url, calls := counted(t)
	h := newHome(t)
	s, settings := spending(url, "", 1_000_000)
	h.write(t, s, settings)
	for kill := range *budgetKills {
		p, at := h.up(t)
		if kill > 0 {
			requireCharged(t, h, calls.Load(), int64(kill*inFlight))
		}
		client := newClient(t)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		before := calls.Load()
		for range inFlight {
			all.Go(func() {
				for ctx.Err() == nil {
					if _, err := callCount(ctx, client, at); err != nil {
						return // killed
					}
				}
			})
		}
		testwait.Until(t, patience, "calls", func() bool { return calls.Load() > before+40 })
		if code := p.stop(t, syscall.SIGKILL); code == 0 {
			t.Error("it ended by itself")
		}
		stop()
		all.Wait()
		client.CloseIdleConnections()
	}
	h.up(t)
	requireCharged(t, h, calls.Load(), int64(*budgetKills*inFlight))
}

// Plans and budgets change with a reload, at once, and keep what was used. What is
// wrong in them leaves the old ones in force.
func TestReloadOfBudgets(t *testing.T) {
	url, _ := counted(t)
	h := newHome(t)
	s, settings := spending(url, "", 2)
	h.write(t, s, settings)
	_, at := h.up(t)
	client := newClient(t)
	call := func(want string) {
		t.Helper()
		if got, err := callCount(t.Context(), client, at); err != nil || got != want {
			t.Errorf("a call: %s, %v; want %s", got, err, want)
		}
	}
	reload := func(change func(map[string]any)) {
		t.Helper()
		change(settings)
		h.write(t, s, settings)
		h.ok(t, "reload", h.file)
	}
	call("ok")
	call("ok")
	call("budget")
	reload(func(m map[string]any) { m["budgets"] = spendingMore(3) })
	call("ok")
	call("budget")
	reload(func(m map[string]any) {
		m["plans"] = map[string]any{"small": 1}
		m["tenants"] = map[string]any{"default": map[string]any{"plan": "small", "zone": "Europe/Paris"}}
		delete(m, "budgets")
	})
	call("ok") // plans count for themselves
	call("budget")
	if uses := h.uses(t, "--budget", "plan"); len(uses) != 1 || uses[0].Key != "tenant:default" || uses[0].Used != 1 || uses[0].EmptyAt == nil && uses[0].Limit == nil {
		t.Errorf("listed %+v", uses)
	}
	settings["tenants"] = map[string]any{"default": map[string]any{"plan": "smal"}}
	h.write(t, s, settings)
	if got := h.run(t, "reload", h.file); got.code != exitConfig || !strings.Contains(got.stderr, `no plan has the name "smal"`) {
		t.Errorf("a wrong plan: %d %s", got.code, got.stderr)
	}
	call("budget")
	reload(func(m map[string]any) {
		delete(m, "tenants")
		m["budgets"] = []any{map[string]any{"name": "none", "per": "tenant", "limit": 1, "window": "day", "match": "nothing__*"}}
	})
	call("ok")
	const nothing = `budgets[0].match: "nothing__*" matches nothing that there is`
	if got := h.run(t, "validate", h.file); got.code != exitConfig || !strings.Contains(got.stderr, nothing) {
		t.Errorf("validate: %d %s", got.code, got.stderr)
	}
	testwait.Until(t, patience, "the alarm", func() bool { return strings.Contains(h.ok(t, "ls", h.file), "alarm: ") })
	if text := h.ok(t, "budget", "rebuild", "--file", h.file); !strings.Contains(text, "nothing to rebuild") {
		t.Errorf("rebuild: %s", text)
	}
}

// Where the store loses writes with the power, plans are refused unless told so.
func TestPlansWantAnExactStore(t *testing.T) {
	h := newHome(t)
	settings := map[string]any{"durability": "normal", "plans": map[string]any{"free": 1}, "tenants": map[string]any{"*": map[string]any{"plan": "free"}}}
	h.write(t, servers{"fake": fake()}, settings)
	if got := h.run(t, "validate", h.file); got.code != exitConfig || !strings.Contains(got.stderr, "bounded_plans: true") {
		t.Errorf("plans in a bounded store: %d %s", got.code, got.stderr)
	}
	settings["bounded_plans"] = true
	h.write(t, servers{"fake": fake()}, settings)
	h.ok(t, "validate", h.file)
	_, at := h.up(t)
	client := newClient(t)
	for i, want := range []string{`"result"`, `"kind":"budget"`} {
		if _, answer := post(t, client, at, "", "tools/call", "fake__pid", `"name":"fake__pid",`); !strings.Contains(string(answer), want) {
			t.Errorf("call %d: %s", i, answer)
		}
	}
	// Durability is taken over at the next start, and until then plans that need
	// it are refused.
	delete(settings, "bounded_plans")
	settings["durability"] = "full"
	h.write(t, servers{"fake": fake()}, settings)
	if got := h.run(t, "reload", h.file); got.code != exitConfig || !strings.Contains(got.stderr, "start it again") {
		t.Errorf("a reload of what the store cannot: %d %s", got.code, got.stderr)
	}
}

// The store is checked and copied beside the gateway; the copy is a store.
func TestStoreBackup(t *testing.T) {
	h := newHome(t)
	if got := h.run(t, "store", "check", "--file", h.file); got.code != exitConfig {
		t.Errorf("without a file: %d %s", got.code, got.stderr)
	}
	h.write(t, servers{"fake": fake()}, map[string]any{"budgets": spendingMore(5)})
	if got := h.run(t, "store", "check", "--file", h.file); got.code != exitUnreachable {
		t.Errorf("without a store: %d %s", got.code, got.stderr)
	}
	_, at := h.up(t)
	post(t, newClient(t), at, "", "tools/call", "fake__pid", `"name":"fake__pid",`)
	if text := h.ok(t, "store", "check", "--file", h.file); !strings.Contains(text, "no damage found") {
		t.Errorf("check: %s", text)
	}
	copied := h.path("copy.db")
	h.ok(t, "store", "backup", copied, "--file", h.file)
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	if got := h.run(t, "store", "backup", copied, "--file", h.file); got.code == 0 || !strings.Contains(got.stderr, "is there already") {
		t.Errorf("a copy over another: %d %s", got.code, got.stderr)
	}
	if left, _ := filepath.Glob(h.path(".backup-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	other := newHome(t)
	other.write(t, servers{"fake": fake()}, map[string]any{"store": "sqlite:" + copied, "budgets": spendingMore(5)})
	other.up(t)
	if uses := other.uses(t); len(uses) != 1 || uses[0].Used != 1 {
		t.Errorf("in the copy: %+v", uses)
	}
}

// A store that cannot be written denies what has a limit, and only that, says so in
// words, and serves again by itself.
func TestGatewayWithoutItsBudgetStore(t *testing.T) {
	server := storetest.StartPostgres(t)
	url, calls := counted(t)
	h := newHome(t)
	s, settings := spending(url, server.URL(t), 1000)
	h.write(t, s, settings)
	_, at := h.up(t)
	client := newClient(t)
	if got, err := callCount(t.Context(), client, at); err != nil || got != "ok" {
		t.Fatal(got, err)
	}
	server.Kill(t)
	if got, err := callCount(t.Context(), client, at); err != nil || got != "budget_unavailable" {
		t.Errorf("with the store down: %s, %v", got, err)
	}
	if calls.Load() != 1 {
		t.Errorf("%d calls reached the server", calls.Load())
	}
	server.Start(t)
	testwait.Until(t, patience, "a call once the store is back", func() bool {
		got, err := callCount(t.Context(), client, at)
		return err == nil && got == "ok"
	})
}
