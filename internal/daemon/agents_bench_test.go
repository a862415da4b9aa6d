//go:build !windows

package daemon_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// BenchmarkWaitingRuns is what 500 runs hold, each, while they wait for their model, in a whole
// gateway: the call, the run, its steps, and the connection to the model. The connection of the
// client is not in it.
func BenchmarkWaitingRuns(b *testing.B) {
	const all, callers = 500, 10
	listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	asked := make(chan net.Conn, all)
	go func() { // ends with the listener
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			asked <- c
		}
	}()
	var keys []string
	for i := range callers {
		keys = append(keys, fmt.Sprint("k", i))
	}
	h := newHome(b)
	h.write(b, servers{}, keyed(func(section map[string]any) {
		section["agents"] = map[string]any{"waiter": map[string]any{"model": "m", "endpoint": "http://" + listener.Addr().String() + "/v1"}}
		section["servers"] = map[string]any{"agent": map[string]any{"concurrency": 10_000}}
		section["limits"] = map[string]any{"drain": "10ms", "calls_per_principal": 0, "identical_calls": 0}
	}, keys...))
	r := h.newRunning(b)
	r.settle(b)
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var runs sync.WaitGroup
		for i := range all {
			runs.Go(func() {
				body, headers := modernRequest(mcp.MethodToolsCall, "agent__waiter", `"name":"agent__waiter","arguments":{"task":"wait"},`)
				q := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(body))
				q.RemoteAddr = "127.0.0.1:9"
				headers = append(headers, "Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Authorization", "Bearer "+keys[i%callers])
				for i := 0; i < len(headers); i += 2 {
					q.Header.Set(headers[i], headers[i+1])
				}
				r.Gateway.Handler().ServeHTTP(httptest.NewRecorder(), q)
			})
		}
		conns := make([]net.Conn, all)
		for i := range conns {
			conns[i] = <-asked
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/all/1024, "KB-heap/run")
		b.ReportMetric(float64(int64(after.StackInuse)-int64(before.StackInuse))/all/1024, "KB-stack/run")
		cancel()
		for _, c := range conns {
			c.Close()
		}
		runs.Wait()
	}
}
