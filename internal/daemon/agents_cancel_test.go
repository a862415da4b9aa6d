//go:build !windows

package daemon_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// waitingServer is a server of 2026-07-28 over HTTP with the tool wait, which answers nothing.
// begun has each call, and gone when it was cancelled.
func waitingServer(t testing.TB) (url string, begun chan struct{}, gone chan time.Time) {
	t.Helper()
	begun, gone = make(chan struct{}, 16), make(chan time.Time, 16)
	url = modernServer(t, `{"name":"wait","inputSchema":{"type":"object"}}`, func(_ http.ResponseWriter, r *http.Request, _ *mcp.Message) string {
		begun <- struct{}{}
		<-r.Context().Done()
		gone <- time.Now()
		return ""
	})
	return url, begun, gone
}

// cancels returns what cancels a run that has a call under way at a server of each kind, and how
// long it takes until the servers hear of it.
func cancels(t testing.TB) (h *home, once func() (overHTTP, onStdio time.Duration)) {
	t.Helper()
	h = newHome(t)
	file := func(name string) string { return h.path(name) }
	url, begun, gone := waitingServer(t)
	script := fmt.Sprintf(`{"turns":[{"calls":[{"tool":"s__wait"},{"tool":"a__slow","args":{"file":%q,"wait":%q,"gone":%q}}]},{"text":"done"}],"repeat":true}`,
		file("begun"), file("wait"), file("gone"))
	h.write(t, servers{"a": fake(), "s": {"type": "http", "url": url}}, withAgents(map[string]map[string]any{"waiter": {"endpoint": endpoint(t, script)}}, nil))
	r := h.newRunning(t)
	r.settle(t)
	there := func(name string) func() bool {
		return func() bool {
			_, err := os.Stat(file(name))
			return err == nil
		}
	}
	return h, func() (overHTTP, onStdio time.Duration) {
		for _, name := range []string{"begun", "gone"} {
			_ = os.Remove(file(name))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		c := r.Client(t, "alice")
		go func() {
			_, err := c.Request(ctx, mcp.MethodToolsCall, []byte(`{"name":"agent__waiter","arguments":{"task":"wait"}}`))
			ended <- err
		}()
		<-begun
		testwait.Until(t, patience, "both tools are called", there("begun"))
		from := time.Now()
		cancel()
		overHTTP = (<-gone).Sub(from)
		testwait.Until(t, patience, "the server on a pipe hears of it", there("gone"))
		said, err := os.Stat(file("gone")) // whose time is some milliseconds early: it is that of the last tick
		if err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil {
			t.Error("the call has an answer")
		}
		return overHTTP, said.ModTime().Sub(from)
	}
}

// The end of a call ends the calls of its run at their servers: a request over HTTP is closed, and
// a server on a pipe is sent a notification. The model is told nothing any more.
func TestCancelReachesServers(t *testing.T) {
	t.Parallel()
	h, once := cancels(t)
	overHTTP, onStdio := once()
	t.Logf("the servers heard of it after %v over HTTP and %v on stdio", overHTTP, onStdio)
	for _, e := range h.calls(t, 3) {
		if e.Outcome != audit.OutcomeCancelled && !(e.Name == "agent__waiter" && e.Outcome == audit.OutcomeOK) {
			t.Errorf("%s ended %s", e.Name, e.Outcome)
		}
	}
}

// BenchmarkCancel is how long it takes from the cancellation of a run by its client until the
// servers of its calls hear of it. The bar is 100 ms.
func BenchmarkCancel(b *testing.B) {
	_, once := cancels(b)
	var slowest time.Duration
	for b.Loop() {
		overHTTP, onStdio := once()
		slowest = max(slowest, overHTTP, onStdio)
	}
	b.ReportMetric(float64(slowest.Microseconds())/1000, "ms-slowest")
}
