package telemetry_test

import (
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/internal/telemetry"
)

// receiver is a collector that takes OTLP over HTTP.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	spans  []*tracepb.Span
	about  map[string]string // the resource
	auth   string
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{status: http.StatusOK}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var got collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err != nil || req.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", req.URL.Path, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.status == http.StatusOK {
			r.auth = req.Header.Get("Authorization")
			for _, rs := range got.GetResourceSpans() {
				r.about = make(map[string]string)
				for _, a := range rs.GetResource().GetAttributes() {
					r.about[a.GetKey()] = a.GetValue().GetStringValue()
				}
				for _, ss := range rs.GetScopeSpans() {
					r.spans = append(r.spans, ss.GetSpans()...)
				}
			}
		}
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

// traces runs traces that go to a receiver; end sends what is left.
func traces(t *testing.T, o telemetry.TraceOptions) (traces *telemetry.Traces, end func()) {
	t.Helper()
	all, err := telemetry.NewTraces(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- all.Run(ctx) }()
	return all, sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

const (
	parentTrace = "0af7651916cd43dd8448eb211c80319c"
	parentSpan  = "b7ad6b7169203331"
	sampled     = "00-" + parentTrace + "-" + parentSpan + "-01"
)

// line is a span in one line.
func line(s *tracepb.Span) string {
	var about []string
	for _, a := range s.GetAttributes() {
		about = append(about, a.GetKey()+"="+a.GetValue().GetStringValue())
	}
	return strings.Join([]string{s.GetName(), strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_"), strings.Join(about, ","), s.GetStatus().GetCode().String()}, " | ")
}

// A call joins the trace of its client, its request to a server is its child, and
// the server is told that one.
func TestTraceOfACall(t *testing.T) {
	r := newReceiver(t)
	all, end := traces(t, telemetry.TraceOptions{Settings: telemetry.Settings{OTLP: r.URL, Headers: map[string]secret.Text{"Authorization": "Bearer t"}}, Version: "v1", Instance: "i"})
	defer end()
	began := time.Now().Add(-time.Second)
	s := all.Begin(sampled, "vendor=1", began)
	if s.TraceID() != parentTrace {
		t.Errorf("the trace is %s", s.TraceID())
	}
	parent, state := s.Send(attribute.String("toolgate.server", "a"))
	s.Phase("registry", 0, 2*time.Millisecond, attribute.String("toolgate.decision", "allow"))
	s.Received("tools/call b", "timeout")
	s.End("tools/call a__b", "upstream_error", attribute.String("mcp.method.name", "tools/call"))
	end()
	var lines []string
	byName := make(map[string]*tracepb.Span)
	for _, one := range r.spans {
		lines = append(lines, line(one))
		byName[one.GetName()] = one
		if got := hex.EncodeToString(one.GetTraceId()); got != parentTrace {
			t.Errorf("%s is of the trace %s", one.GetName(), got)
		}
	}
	want := []string{
		"registry | INTERNAL | toolgate.decision=allow | STATUS_CODE_UNSET",
		"tools/call b | CLIENT | toolgate.server=a,error.type=timeout | STATUS_CODE_ERROR",
		"tools/call a__b | SERVER | mcp.method.name=tools/call,error.type=upstream_error | STATUS_CODE_ERROR",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Fatalf("spans (-want +got):\n%s", diff)
	}
	call, request, phase := byName["tools/call a__b"], byName["tools/call b"], byName["registry"]
	if got := hex.EncodeToString(call.GetParentSpanId()); got != parentSpan {
		t.Errorf("the call's parent is %s", got)
	}
	if id := hex.EncodeToString(request.GetSpanId()); parent != "00-"+parentTrace+"-"+id+"-01" || state != "vendor=1" {
		t.Errorf("the server was told %s and %s, the span of its request is %s", parent, state, id)
	}
	for _, child := range []*tracepb.Span{request, phase} {
		if string(child.GetParentSpanId()) != string(call.GetSpanId()) {
			t.Errorf("%s is not a child of the call", child.GetName())
		}
	}
	if phase.GetStartTimeUnixNano() != uint64(began.UnixNano()) || phase.GetEndTimeUnixNano()-phase.GetStartTimeUnixNano() != uint64(2*time.Millisecond) || call.GetStartTimeUnixNano() != uint64(began.UnixNano()) {
		t.Error("the times are others")
	}
	if r.auth != "Bearer t" || r.about["service.name"] != "toolgate" || r.about["service.version"] != "v1" || r.about["service.instance.id"] != "i" {
		t.Errorf("authorization %q, resource %v", r.auth, r.about)
	}
}

// The caller says whether a call is traced; where it says nothing that can be
// read, chance does.
func TestWhoIsTraced(t *testing.T) {
	r := newReceiver(t)
	for _, tt := range []struct {
		parent string
		sample float64
		want   bool
		joins  bool
	}{
		{sampled, 0, true, true},
		{sampled, 1, true, true},
		{strings.TrimSuffix(sampled, "1") + "0", 1, false, false},
		{"", 1, true, false},
		{"", 0, false, false},
		{"nonsense", 1, true, false},
		{"nonsense", 0, false, false},
		{"00-" + strings.Repeat("0", 32) + "-" + parentSpan + "-01", 1, true, false},
		{"ff-" + parentTrace + "-" + parentSpan + "-01", 1, true, false},
		{strings.ToUpper(sampled), 1, true, false},
		{sampled + "\r\nx", 0, false, false},
	} {
		all, end := traces(t, telemetry.TraceOptions{Settings: telemetry.Settings{OTLP: r.URL, Sample: tt.sample}})
		s := all.Begin(tt.parent, "", time.Now())
		if (s != nil) != tt.want || s != nil && (s.TraceID() == parentTrace) != tt.joins {
			t.Errorf("%q at %v: %v, want %v", tt.parent, tt.sample, s, tt.want)
		}
		end()
	}
	all, end := traces(t, telemetry.TraceOptions{Settings: telemetry.Settings{OTLP: r.URL, Sample: 0.1}})
	defer end()
	count := 0
	for range 10_000 {
		if all.Begin("", "", time.Now()) != nil {
			count++
		}
	}
	if count < 800 || count > 1200 {
		t.Errorf("%d of 10,000 calls are traced, want about 1,000", count)
	}
}

// A collector that is away costs the calls nothing: what does not fit is dropped
// and counted, and said once.
func TestCollectorAway(t *testing.T) {
	var log strings.Builder
	all, end := traces(t, telemetry.TraceOptions{Settings: telemetry.Settings{OTLP: "http://127.0.0.1:1/v1/traces", Sample: 1}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	const calls = 20_000
	for range calls {
		all.Begin("", "", time.Now()).End("x", "")
	}
	end()
	if got := all.Dropped(); got == 0 || got > calls {
		t.Errorf("%d of %d spans are counted as dropped", got, calls)
	}
	if got := strings.Count(log.String(), "traces do not reach the collector"); got > 1 {
		t.Errorf("said %d times", got)
	}
}

// A call that is not traced costs no memory.
func TestNotTracedAllocatesNothing(t *testing.T) {
	r := newReceiver(t)
	all, end := traces(t, telemetry.TraceOptions{Settings: telemetry.Settings{OTLP: r.URL}})
	defer end()
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() { all.Begin("", "", now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestBadCollector(t *testing.T) {
	for _, endpoint := range []string{"", "127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://", "http://a b/"} {
		if _, err := telemetry.NewTraces(t.Context(), telemetry.TraceOptions{Settings: telemetry.Settings{OTLP: endpoint}}); err == nil {
			t.Errorf("%q is taken", endpoint)
		}
	}
}
