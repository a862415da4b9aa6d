//go:build !windows

package daemon_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testwait"
)

// benchCalls is how many calls the views of the benchmarks are about.
const benchCalls = 100_000

// BenchmarkConsoleViews opens each view of a console behind which there are 100,000 calls, in
// both databases and in the audit log. Each may take 200 ms.
func BenchmarkConsoleViews(b *testing.B) {
	for _, database := range []string{"sqlite", "postgres"} {
		b.Run(database, func(b *testing.B) {
			more := map[string]any{}
			if database == "postgres" {
				more["store"] = postgres.URL(b)
			}
			l, call := afterManyCalls(b, more)
			for name, path := range map[string]string{
				"now": "/now", "chart": "/now/chart", "calls": "/calls", "failures": "/calls?error=any", "a_tool": "/calls?tool=a__t3", "a_server_that_is_not_there": "/calls?server=z",
				"page": "/calls?since=24h&before=" + time.Now().Add(-time.Minute).UTC().Format(time.RFC3339) + "&row=50000",
				"call": "/calls/" + call, "catalog": "/catalog", "entry": "/catalog/entry?name=a__pid", "try": "/try", "approvals": "/approvals?state=", "budgets": "/budgets", "access": "/access?name=a__pid&as=alice",
			} {
				b.Run(name, func(b *testing.B) {
					page := l.as(b, "root")
					for b.Loop() {
						if w := page.get(b, path); w.Code != http.StatusOK {
							b.Fatalf("%s: %d %s", path, w.Code, w.Body)
						}
					}
				})
			}
			b.Run("own_calls", func(b *testing.B) {
				page := l.as(b, "alice")
				for b.Loop() {
					if w := page.get(b, "/calls"); w.Code != http.StatusOK {
						b.Fatal(w.Code)
					}
				}
			})
		})
	}
}

// afterManyCalls runs a gateway whose log of executions and audit log have many calls of the
// last day, and returns the id of one of them.
func afterManyCalls(b *testing.B, more map[string]any) (_ *looked, call string) {
	b.Helper()
	l := lookedAt(b, servers{"a": fake("one")}, more)
	log, err := audit.Open(filepath.Join(l.dir, "state", "audit.jsonl.1"), audit.Options{Key: audit.Key{ID: "bench", Secret: make([]byte, 32)}, Fsync: audit.FsyncNone})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	for done := 0; done < benchCalls; {
		e := l.r.Store.Executions(0)
		for range 10_000 { // as many as wait at once
			at, id := began.Add(-time.Duration(benchCalls-done)*time.Second*86_000/benchCalls), fmt.Sprintf("bench-%d", done)
			x := store.Execution{
				At: at, CallID: id, Server: "a", Tool: fmt.Sprintf("a__t%d", done%50), Tenant: "default", Persona: "p", Session: "s", Success: true,
				Duration: time.Duration(done%9000) * time.Microsecond, Upstream: time.Millisecond, RequestSize: 100, ResponseSize: 2000, Principal: fmt.Sprintf("p%d", done%100),
			}
			if done%20 == 0 {
				x.Success, x.ErrorClass = false, "tool_error"
			}
			e.Add(x)
			if err := log.End(benchEntry(at, id)); err != nil {
				b.Fatal(err)
			}
			done++
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := e.Run(ctx); err != nil { // writes what waits
			b.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		b.Fatal(err)
	}
	call = fmt.Sprintf("bench-%d", benchCalls/2)
	page := l.as(b, "root")
	testwait.Until(b, patience, "the audit log has the calls", func() bool { return page.get(b, "/calls/"+call).Code == http.StatusOK })
	return l, call
}

// benchEntry is an entry as long as those of real calls.
func benchEntry(at time.Time, id string) *audit.Entry {
	return &audit.Entry{
		Time: at, CallID: id, Method: "tools/call", Name: "a__t1", Server: "a", OriginalName: "t1", Outcome: audit.OutcomeOK, DurationUS: 1500, UpstreamUS: 1000, GatewayUS: 500,
		ArgsHash: strings.Repeat("0", 64), BytesIn: 100, BytesOut: 2000, Steps: []audit.Step{{Phase: "open", Verdict: "allow"}, {Phase: "registry", Verdict: "abstain", Rule: strings.Repeat("r", 60)}, {Phase: "budget", Verdict: "pass"}},
	}
}
