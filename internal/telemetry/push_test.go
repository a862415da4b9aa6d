package telemetry_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/internal/testwait"
)

// gauges is a collector that takes metrics over HTTP.
type gauges struct {
	*httptest.Server
	status atomic.Int32

	mu     sync.Mutex
	path   string
	auth   string
	about  map[string]string
	latest map[string]*metricpb.Metric
	came   chan struct{} // capacity 1: metrics have come
}

func newGauges(t *testing.T) *gauges {
	g := &gauges{came: make(chan struct{}, 1)}
	g.status.Store(http.StatusOK)
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if status := int(g.status.Load()); status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		body, err := io.ReadAll(req.Body)
		var got collector.ExportMetricsServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err != nil {
			t.Errorf("what came is not OTLP: %v", err)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.path, g.auth = req.URL.Path, req.Header.Get("Authorization")
		g.about, g.latest = make(map[string]string), make(map[string]*metricpb.Metric)
		for _, rm := range got.GetResourceMetrics() {
			for _, a := range rm.GetResource().GetAttributes() {
				g.about[a.GetKey()] = a.GetValue().GetStringValue()
			}
			for _, sm := range rm.GetScopeMetrics() {
				for _, m := range sm.GetMetrics() {
					g.latest[m.GetName()] = m
				}
			}
		}
		select {
		case g.came <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(g.Close)
	return g
}

// push runs a push until end is called.
func push(t *testing.T, m *telemetry.Metrics, o telemetry.TraceOptions) (end func()) {
	t.Helper()
	p, err := telemetry.NewPush(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// A collector gets the counters that Prometheus reads, with their values, and the last
// ones when the gateway ends.
func TestPushOfMetrics(t *testing.T) {
	g := newGauges(t)
	m := telemetry.New("v1")
	end := push(t, m, telemetry.TraceOptions{
		Settings: telemetry.Settings{OTLP: g.URL + "/v1/traces", Metrics: 10 * time.Millisecond, Headers: map[string]secret.Text{"Authorization": "Bearer t"}},
		Version:  "v1", Instance: "i",
	})
	defer end()
	<-g.came
	m.Limited("identical_calls")
	m.Limited("identical_calls")
	end()
	if g.path != "/v1/metrics" || g.auth != "Bearer t" {
		t.Errorf("sent to %s with the credential %q", g.path, g.auth)
	}
	if g.about["service.name"] != "toolgate" || g.about["service.version"] != "v1" || g.about["service.instance.id"] != "i" {
		t.Errorf("the resource is %v", g.about)
	}
	limited := g.latest["toolgate_limited_total"].GetSum()
	points := limited.GetDataPoints()
	if !limited.GetIsMonotonic() || len(points) != 1 || points[0].GetAsDouble() != 2 || points[0].GetAttributes()[0].GetValue().GetStringValue() != "identical_calls" {
		t.Errorf("toolgate_limited_total is %v", limited)
	}
	if g.latest["go_goroutines"].GetGauge() == nil {
		t.Error("the metrics of the runtime are not sent")
	}
}

// A histogram arrives as one, with the buckets of the semantic conventions.
func TestPushOfHistograms(t *testing.T) {
	g := newGauges(t)
	m := telemetry.New("v1")
	end := push(t, m, telemetry.TraceOptions{Settings: telemetry.Settings{OTLP: g.URL, Metrics: time.Hour}})
	m.Call(&telemetry.Call{Method: "tools/call", Tool: "a__b", Server: "a", Transport: "http", Outcome: "ok", Took: 30 * time.Millisecond})
	end()
	h := g.latest["mcp_server_operation_duration_seconds"].GetHistogram()
	if points := h.GetDataPoints(); len(points) != 1 || points[0].GetCount() != 1 || len(points[0].GetExplicitBounds()) != 14 {
		t.Errorf("the histogram is %v", h)
	}
}

// A collector that fails is named once, and once more when it is back; nothing of its
// credential is in the log.
func TestPushToAFailingCollector(t *testing.T) {
	g := newGauges(t)
	g.status.Store(http.StatusServiceUnavailable)
	var log lockedText
	end := push(t, telemetry.New("v1"), telemetry.TraceOptions{
		Settings: telemetry.Settings{OTLP: g.URL, Metrics: 5 * time.Millisecond, Headers: map[string]secret.Text{"Authorization": "Bearer hush"}},
		Logger:   slog.New(slog.NewTextHandler(&log, nil)),
	})
	defer end()
	testwait.Until(t, 10*time.Second, "the failure is logged", func() bool { return strings.Contains(log.String(), "do not reach the collector") })
	g.status.Store(http.StatusOK)
	testwait.Until(t, 10*time.Second, "the recovery is logged", func() bool { return strings.Contains(log.String(), "reach the collector again") })
	end()
	text := log.String()
	if strings.Count(text, "do not reach the collector") != 1 || strings.Contains(text, "hush") {
		t.Errorf("the log:\n%s", text)
	}
}

// lockedText is a text that several goroutines write.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestPushNeedsAnAddress(t *testing.T) {
	for _, address := range []string{"", "collector:4318", "ftp://a", "http://a/otlp"} {
		if _, err := telemetry.NewPush(t.Context(), telemetry.New("v1"), telemetry.TraceOptions{Settings: telemetry.Settings{OTLP: address, Metrics: time.Minute}}); err == nil {
			t.Errorf("%q was taken", address)
		}
	}
}
