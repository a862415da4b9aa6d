package telemetry_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/telemetry"
)

var errBroken = errors.New("broken")

// most is how many series a metric may have, by its name.
var most = map[string]int{
	"tool_execution_total":                  6 * 2001,
	"tool_execution_duration":               2001,
	"toolgate_refusals_total":               2001 * 129,
	"tool_permission_denied":                10_000 + 2001*7,
	"tool_discovery_count":                  501,
	"toolgate_tool_lists_total":             501,
	"mcp_server_operation_duration_seconds": 129 * 129,
	"mcp_client_operation_duration_seconds": 501 * 129 * 2,
	"toolgate_decisions_total":              129 * 129,
	"toolgate_upstream_state":               500,
	"toolgate_upstream_up":                  500,
	"mcp_client_session_duration_seconds":   500,
	"toolgate_budget_remaining_ratio":       200,
}

// 100,000 random names of everything that comes from elsewhere make no more series
// than the bounds say, and no name is lost: it is counted with the others.
func TestLabelsAreBounded(t *testing.T) {
	m := telemetry.New("v1")
	m.TellUsersApart(1000)
	random := rand.New(rand.NewPCG(1, 2))
	const calls = 100_000
	for i := range calls {
		name := fmt.Sprintf("%x\xff\n\"", random.Uint64())
		m.Call(&telemetry.Call{Method: "tools/call", Transport: "http", Server: "s" + name, Tool: name, Outcome: "ok", Upstream: 1})
		m.Call(&telemetry.Call{Method: name, Transport: name, Outcome: "error", Code: "-" + name})
		m.Decided(name, name)
		m.Discovered(name, i)
		m.Call(&telemetry.Call{Method: "tools/call", Transport: "http", Server: "a", Tool: name, Outcome: "denied", Code: "governance", User: name})
		m.State(name, "ready", i%2 == 0)
		m.Budget(&telemetry.Charge{Budget: "one", Outcome: "granted", Limited: true, Owner: name, Left: 0.5, Until: time.Now().Add(time.Hour)})
	}
	all := families(t, m)
	for name, family := range all {
		limit, ok := most[name]
		if !ok {
			limit = 100
		}
		if got := len(family.GetMetric()); got > limit {
			t.Errorf("%s has %d series, at most %d are allowed", name, got, limit)
		}
	}
	others := 0.0
	for _, one := range all["tool_execution_total"].GetMetric() {
		for _, l := range one.GetLabel() {
			if l.GetName() == "tool_name" && l.GetValue() == "_other" {
				others = one.GetCounter().GetValue()
			}
		}
	}
	if others != calls-2000 {
		t.Errorf("%v calls of tools beyond the bound are counted, want %d", others, calls-2000)
	}
}

// A call that is like one before it costs no memory.
func TestCallAllocatesNothing(t *testing.T) {
	m := telemetry.New("v1")
	c := telemetry.Call{Method: "tools/call", Transport: "http", Server: "a", Tool: "a__b", Outcome: "ok", Took: time.Millisecond, Upstream: time.Millisecond}
	charge := telemetry.Charge{Budget: "b", Outcome: "granted", Limited: true, Owner: "o", Left: 0.5, Until: time.Now().Add(time.Hour)}
	m.Discovered("bot", 3)
	for name, f := range map[string]func(){
		"a call":      func() { m.Call(&c) },
		"a list":      func() { m.Served("tools/list", "http", time.Millisecond, false) },
		"a decision":  func() { m.Decided("registry", "allow") },
		"a discovery": func() { m.Discovered("bot", 3) },
		"a charge":    func() { m.Budget(&charge) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	m := telemetry.New("v1")
	c := telemetry.Call{Method: "tools/call", Transport: "http", Server: "a", Tool: "a__b", Outcome: "ok", Took: time.Millisecond, Upstream: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		m.Call(&c)
	}
}
