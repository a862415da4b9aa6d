//go:build !windows

package daemon_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
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
				r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, rs.all[i].url+"/mcp", strings.NewReader(ping))
				if err != nil {
					b.Fatal(err)
				}
				r.Header = http.Header{
					"Authorization": {"Bearer k"}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, mcp.HeaderSession: {id},
				}
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					b.Fatal(resp.Status)
				}
				times = append(times, time.Since(began))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "p50-us")
		})
	}
}
