//go:build !windows

package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testport"
)

// What an interceptor says is a step in the trace of its call, and its time is in a metric.
func TestInterceptorsAreObserved(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var spans []string
	otlp := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var got collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range got.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					spans = append(spans, s.GetName())
				}
			}
		}
	}))
	t.Cleanup(otlp.Close)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Phase string }
		_ = json.NewDecoder(r.Body).Decode(&q)
		_, _ = io.WriteString(w, map[string]string{"before": `{"decision":"allow"}`, "after": `{"decision":"deny","reason":"secret"}`}[q.Phase])
	}))
	t.Cleanup(receiver.Close)
	h := newHome(t)
	delete(h.env, "TOOLGATE_LISTEN_METRICS")
	metrics := testport.Address(t)
	h.write(t, servers{"a": fake()}, map[string]any{
		"listen": map[string]any{"metrics": metrics}, "telemetry": map[string]any{"otlp": otlp.URL, "sample": 1},
		"interceptors": []any{map[string]any{"name": "dlp", "webhook": map[string]any{"url": receiver.URL, "secret": strings.Repeat("s", 32)}}},
	})
	p, url := h.up(t)
	client := newClient(t)
	if _, answer := post(t, client, url, "", mcp.MethodToolsCall, "a__pid", `"name":"a__pid",`); !strings.Contains(string(answer), `holds its result back: secret`) {
		t.Errorf("answered %s", answer)
	}
	resp, err := client.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	for _, want := range []string{
		`toolgate_interceptor_duration_seconds_count{interceptor="dlp",phase="before",verdict="pass"} 1`,
		`toolgate_interceptor_duration_seconds_count{interceptor="dlp",phase="after",verdict="deny"} 1`,
	} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("scraped %v, without %s", err, want)
		}
	}
	if code := p.stop(t, syscall.SIGTERM); code != exitOK { // which sends what is left
		t.Errorf("exit code %d", code)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"toolgate interceptor/dlp", "toolgate interceptor/dlp/after"} {
		if !slices.Contains(spans, want) {
			t.Errorf("the spans are %q, without %s", spans, want)
		}
	}
}
