//go:build !windows

package daemon_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// A run that its caller or an operator cancels while its gateway drains goes on nowhere. One that
// the end of the gateway has cut does.
func TestCancelDuringADrain(t *testing.T) {
	t.Parallel()
	overHTTP := func(ctx context.Context, _ *testing.T, r *running) {
		body, headers := modernRequest(mcp.MethodToolsCall, "agent__worker", `"name":"agent__worker","arguments":{"task":"work"},`)
		q := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(body))
		q.RemoteAddr = "127.0.0.1:9"
		headers = append(headers, "Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Authorization", "Bearer alice")
		for i := 0; i < len(headers); i += 2 {
			q.Header.Set(headers[i], headers[i+1])
		}
		r.Gateway.Handler().ServeHTTP(httptest.NewRecorder(), q)
	}
	onStream := func(ctx context.Context, t *testing.T, r *running) {
		_, _ = r.Client(t, "alice").Request(ctx, mcp.MethodToolsCall, []byte(`{"name":"agent__worker","arguments":{"task":"work"}}`))
	}
	asTask := func(ctx context.Context, t *testing.T, r *running) {
		_, _ = r.Client(t, "alice").Request(ctx, mcp.MethodToolsCall, []byte(`{"name":"agent__worker","arguments":{"task":"work"},"task":{}}`))
	}
	goes := func(_ *running, gone func(), _ string) error { gone(); return nil }
	stays := func(*running, func(), string) error { return nil }
	for name, tc := range map[string]struct {
		call         func(ctx context.Context, t *testing.T, r *running)
		cancel       func(r *running, gone func(), run string) error
		drain, state string
	}{
		"a request that its client closes":       {overHTTP, goes, "1m", "cancelled"},
		"a request that its client cancels":      {onStream, goes, "1m", "cancelled"},
		"a run that an operator cancels":         {overHTTP, func(r *running, _ func(), run string) error { return r.Control.CancelRun(t.Context(), run) }, "1m", "cancelled"},
		"a request that the gateway cuts":        {overHTTP, stays, "100ms", "completed"},
		"a stream that ends with the gateway":    {onStream, stays, "100ms", "completed"},
		"a task that ends with the gateway":      {asTask, stays, "100ms", "completed"},
		"a request that is closed after its end": {overHTTP, func(r *running, gone func(), _ string) error { defer gone(); return r.End() }, "100ms", "completed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			m := holdModel(t, `{"turns":[{"text":"done"}],"repeat":true}`)
			h.write(t, servers{}, keyed(func(section map[string]any) {
				section["agents"] = map[string]any{"worker": map[string]any{"model": "m", "api_key": "model-key", "endpoint": m.url}}
				section["limits"] = map[string]any{"drain": tc.drain}
			}, "alice"))
			r := h.newRunning(t)
			r.settle(t)
			ctx, gone := context.WithCancel(t.Context())
			defer gone()
			called := make(chan struct{})
			go func() {
				tc.call(ctx, t, r)
				close(called)
			}()
			<-m.comes
			list, err := r.Control.Runs(t.Context(), admin.RunQuery{})
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			ended, over := error(nil), make(chan struct{})
			go func() { ended = r.End(); close(over) }()
			testwait.Until(t, patience, "the gateway drains", func() bool {
				select {
				case <-over: // a slow machine has missed it
					return true
				default:
				}
				body, headers := modernRequest(mcp.MethodToolsCall, "util__echo", `"name":"util__echo","arguments":{"text":"x"},`)
				return strings.Contains(r.postOnce(t, "alice", "/mcp", body, headers...).body, "shutting_down")
			})
			if err := tc.cancel(r, gone, list[0].ID); err != nil {
				t.Fatal(err)
			}
			if <-over; ended != nil {
				t.Fatal(ended)
			}
			gone()
			<-called
			next := h.newRunning(t)
			m.goes <- struct{}{}
			testwait.Until(t, patience, "the run has ended", func() bool {
				list, err = next.Control.Runs(t.Context(), admin.RunQuery{})
				return err == nil && len(list) == 1 && list[0].State != "running"
			})
			if asked := m.asked.Load(); list[0].State != tc.state || tc.state == "cancelled" && asked != 1 {
				t.Errorf("the run is %s, and the model was asked %d times", list[0].State, asked)
			}
		})
	}
}
