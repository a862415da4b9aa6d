//go:build !windows

package daemon_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// BenchmarkSessionAtReplica is a ping of a session at the gateway that has it, and at one that
// passes it on. p50-us is the median time of a request.
func BenchmarkSessionAtReplica(b *testing.B) {
	rs := newReplicas(b, 2, servers{"s": fake()})
	id := open(b, rs.all[0].url, "k")
	for i, name := range []string{"owner", "other"} {
		b.Run(name, func(b *testing.B) {
			const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
			times := make([]time.Duration, 0, b.N)
			for b.Loop() {
				began := time.Now()
				if got := post(b, rs.all[i].url+"/mcp", "k", ping, mcp.HeaderSession, id); got.status != http.StatusOK {
					b.Fatal(got.status, got.body)
				}
				times = append(times, time.Since(began))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "p50-us")
		})
	}
}

// BenchmarkSessionIsRebuilt is the first request of sessions at another gateway after their own has
// ended, which rebuilds them, and the second one. Each session has set its log level. p50-us and
// p99-us are of a request.
func BenchmarkSessionIsRebuilt(b *testing.B) {
	const sessions, ping, level = 300, `{"jsonrpc":"2.0","id":7,"method":"ping"}`, `{"jsonrpc":"2.0","id":8,"method":"logging/setLevel","params":{"level":"warning"}}`
	rs := newReplicas(b, 2, servers{"s": fake()}, map[string]any{"limits": map[string]any{"sessions_per_principal": 2 * sessions}})
	ids := make([]string, sessions)
	for i := range ids {
		ids[i] = open(b, rs.all[0].url, "k")
		if got := post(b, rs.all[0].url+"/mcp", "k", level, mcp.HeaderSession, ids[i]); got.status != http.StatusOK {
			b.Fatal(got.status, got.body)
		}
	}
	rs.end(b, rs.all[0])
	rs.know(b, 1)
	for _, name := range []string{"first", "second"} {
		b.Run(name, func(b *testing.B) {
			if b.N > 1 {
				b.Skip("the first request comes once: run it with -benchtime 1x")
			}
			var times []time.Duration
			for _, id := range ids {
				began := time.Now()
				if got := post(b, rs.all[1].url+"/mcp", "k", ping, mcp.HeaderSession, id); got.status != http.StatusOK {
					b.Fatal(got.status, got.body)
				}
				times = append(times, time.Since(began))
			}
			slices.Sort(times)
			for name, at := range map[string]int{"p50-us": sessions / 2, "p99-us": sessions * 99 / 100} {
				b.ReportMetric(float64(times[at].Nanoseconds())/1000, name)
			}
		})
	}
}
