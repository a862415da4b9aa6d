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
