//go:build !windows

package daemon_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/redis/redistest"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/testwait"
)

// Rates and the limits of single tools are in force, survive a reload that leaves
// or changes them, and end with one that takes them out.
func TestRatesOfTheFile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	section := rated(map[string]any{"name": "all", "per": "principal", "match": "a__*", "limit": 4, "window": "1h"})
	section["servers"] = map[string]any{"a": map[string]any{"tools": map[string]any{"pid": map[string]any{"rename": "process", "rate_limit_per_hour": 2}}}}
	h.write(t, servers{"a": fake(), "b": fake("b")}, section)
	r := h.newRunning(t)
	c := r.client(t)
	for i, want := range []string{"ok", "ok", "rate_limited"} {
		if got := tried(t.Context(), c, "a__process", "{}"); got != want {
			t.Errorf("call %d of the tool: %s, want %s", i, got, want)
		}
	}
	if got := tried(t.Context(), c, "b__pid", "{}"); got != "ok" {
		t.Errorf("the same tool of another server: %s", got)
	}
	if got := tried(t.Context(), c, "a__echo", "{}"); got != "ok" {
		t.Errorf("another tool: %s", got)
	}
	section["rates"].([]map[string]any)[0]["limit"] = 3
	h.write(t, servers{"a": fake(), "b": fake("b")}, section)
	done, err := r.TakeFile(true)
	if err != nil || !strings.Contains(strings.Join(done.Applied, " "), "setting rates") {
		t.Fatalf("%+v, %v", done, err)
	}
	for i, want := range []string{"rate_limited", "rate_limited"} {
		if got := tried(t.Context(), c, "a__echo", "{}"); got != want {
			t.Errorf("call %d after the limit was lowered: %s, want %s", i, got, want)
		}
	}
	if got := tried(t.Context(), c, "a__process", "{}"); got != "rate_limited" {
		t.Errorf("the limit of the tool after a reload: %s", got)
	}
	delete(section, "rates")
	delete(section, "servers")
	h.write(t, servers{"a": fake(), "b": fake("b")}, section)
	if _, err := r.TakeFile(true); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	if got := tried(t.Context(), c, "a__pid", "{}"); got != "ok" {
		t.Errorf("without limits: %s", got)
	}
}

// A sliding limit of the file and that of a declared tool count, and a declared
// tool keeps its count across a reload.
func TestSlidingRates(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	section := rated(map[string]any{"name": "all", "per": "principal", "match": "a__*", "limit": 2, "window": "1h", "kind": "sliding"})
	section["tools"] = []map[string]any{{
		"name": "say", "namespace": "own", "type": "command", "args": []string{"/bin/echo", "hello"}, "sandbox": "off", "class": "read_only", "rate_limit_per_hour": 2,
	}}
	h.write(t, servers{"a": fake()}, section)
	r := h.newRunning(t)
	c := r.client(t)
	try := func(what, name string, want ...string) {
		t.Helper()
		for i, want := range want {
			if got := tried(t.Context(), c, name, "{}"); got != want {
				t.Errorf("%s, call %d: %s, want %s", what, i, got, want)
			}
		}
	}
	try("of the file", "a__pid", "ok", "ok", "rate_limited")
	try("declared", "own__say", "ok", "ok", "rate_limited")
	section["tools"].([]map[string]any)[0]["rate_limit_per_hour"] = 3
	h.write(t, servers{"a": fake()}, section)
	if _, err := r.TakeFile(true); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	try("declared, with a larger limit", "own__say", "ok", "rate_limited")
}

// A rate whose glob is about nothing is an alarm, and an error in validate.
func TestDanglingRate(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, rated(
		map[string]any{"per": "tenant", "match": "a__*", "limit": 1, "window": "1s"},
		map[string]any{"per": "tenant", "match": "none__*", "limit": 1, "window": "1s"},
		map[string]any{"per": "tenant", "match": "file:///*", "limit": 1, "window": "1s"},
	))
	r := h.newRunning(t)
	testwait.Until(t, patience, "an alarm", func() bool { return len(r.Status().Alarms) > 0 })
	alarms := r.Status().Alarms
	if len(alarms) != 1 || !strings.Contains(alarms[0], `rates[1].match`) || !strings.Contains(alarms[0], `"none__*" matches nothing that there is`) {
		t.Errorf("%q", alarms)
	}
}

// Three gateways with one Redis let pass exactly what a rate, or a budget, allows
// of all their clients' calls, and each call that passes is one at a server.
func TestGatewaysShareLimits(t *testing.T) {
	t.Parallel()
	for name, section := range map[string]map[string]any{
		"rate":   rated(map[string]any{"per": "tenant", "limit": 40, "window": "7d"}),
		"budget": {"budgets_in": "redis", "budgets": []map[string]any{{"name": "b", "per": "tenant", "limit": 40, "window": "sliding:1h"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := redistest.Start(t).Address()
			var passed, refused, other atomic.Int64
			var all sync.WaitGroup
			for range 3 {
				h := newHome(t)
				section := extended(section, "redis", address)
				h.write(t, servers{"a": fake()}, section)
				r := h.newRunning(t)
				for range 10 {
					c := r.client(t)
					all.Go(func() {
						for i := range 10 {
							switch got := tried(t.Context(), c, "a__pid", fmt.Sprintf(`{"i":%d}`, i)); got {
							case "ok":
								passed.Add(1)
							case "rate_limited", "budget":
								refused.Add(1)
							default:
								other.Add(1)
								t.Error(got)
							}
						}
					})
				}
			}
			all.Wait()
			if passed.Load() != 40 || refused.Load() != 260 {
				t.Errorf("%d passed, %d were refused, %d else; want 40 and 260", passed.Load(), refused.Load(), other.Load())
			}
		})
	}
}

// Two gateways with one Redis count identical calls and failed authentications together.
func TestGatewaysShareLoopsAndFailures(t *testing.T) {
	t.Parallel()
	section := withKeys("alice")
	section["redis"] = redistest.Start(t).Address()
	section["limits"] = map[string]any{"identical_calls": 20, "auth_failures_per_minute": 30}
	var gateways [2]*running
	for i := range gateways {
		h := newHome(t)
		h.write(t, servers{"a": fake()}, section)
		gateways[i] = h.newRunning(t)
	}
	clients := [2]*lineclient.Client{gateways[0].Client(t, "alice"), gateways[1].Client(t, "alice")}
	passed := 0
	for i := range 60 {
		switch got := tried(t.Context(), clients[i%2], "a__pid", "{}"); got {
		case "ok":
			passed++
		case "repeated_call":
		default:
			t.Fatal(got)
		}
	}
	if passed != 20 {
		t.Errorf("%d identical calls passed, want 20", passed)
	}
	verified, refused := 0, 0
	for i := range 80 {
		switch w := gateways[i%2].postOnce(t, "nobody's", "/mcp", "{}"); w.status {
		case http.StatusUnauthorized:
			verified++
		case http.StatusTooManyRequests:
			refused++
		default:
			t.Fatalf("status %d, %s", w.status, w.body)
		}
	}
	if verified < 30 || verified >= 50 || refused < 30 {
		t.Errorf("%d credentials were looked at, and %d were not; want 30, and one more every two seconds", verified, refused)
	}
}

// Budgets in a Redis that has lost them deny, also after a new start, until they
// are rebuilt.
func TestBudgetsInALostRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	h := newHome(t)
	h.write(t, servers{"a": fake()}, map[string]any{
		"redis": server.Address(), "budgets_in": "redis", "bounded_plans": true,
		"budgets": []map[string]any{{"name": "b", "per": "tenant", "limit": 10, "window": "month"}},
	})
	r := h.newRunning(t)
	if got := tried(t.Context(), r.client(t), "a__pid", "{}"); got != "ok" {
		t.Fatal(got)
	}
	server.Do(t, "FLUSHALL")
	if got := tried(t.Context(), r.client(t), "a__pid", "{}"); !strings.Contains(got, "budget_unavailable") {
		t.Errorf("with a Redis that is flushed: %s", got)
	}
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	r = h.newRunning(t)
	c := r.client(t)
	if got := tried(t.Context(), c, "a__pid", "{}"); !strings.Contains(got, "budget_unavailable") {
		t.Errorf("after a new start: %s", got)
	}
	if _, err := r.Budgets.Store.Usage(t.Context(), r.Budgets.Clock.Now(), budget.Filter{}, 1); !errors.Is(err, budget.ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
	if did, err := r.RebuildBudgets(t.Context()); err != nil || !strings.Contains(did, "usable again") {
		t.Fatalf("%q, %v", did, err)
	}
	if got := tried(t.Context(), c, "a__pid", "{}"); got != "ok" {
		t.Errorf("after they were rebuilt: %s", got)
	}
}

// A gateway starts without its Redis, and holds rates by itself.
func TestStartWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill(t)
	h := newHome(t)
	h.write(t, servers{"a": fake()}, extended(rated(map[string]any{"per": "principal", "limit": 2, "window": "1h"}), "redis", server.Address()))
	r := h.newRunning(t)
	c := r.client(t)
	for i, want := range []string{"ok", "ok", "rate_limited"} {
		if got := tried(t.Context(), c, "a__pid", "{}"); got != want {
			t.Errorf("call %d: %s, want %s", i, got, want)
		}
	}
	if alarms := r.Status().Alarms; len(alarms) != 1 || !strings.Contains(alarms[0], "Redis did not answer") {
		t.Errorf("alarms %q", alarms)
	}
}

// rated is a toolgate section with rates.
func rated(rates ...map[string]any) map[string]any { return map[string]any{"rates": rates} }

// extended is a copy of a section with one more member.
func extended(section map[string]any, key string, value any) map[string]any {
	out := map[string]any{key: value}
	maps.Copy(out, section)
	return out
}
