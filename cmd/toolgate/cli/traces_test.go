//go:build !windows

package cli

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A trace of a client goes through the gateway to its server and to the collector:
// the gateway's span is the child of the client's, that of the request to the
// server the child of the gateway's, and the server is told that one.
func TestTracesOfTheProgram(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	spans := make(map[string]*tracepb.Span)
	otlp := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var got collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err != nil || r.Header.Get("X-Key") != "of the collector" {
			t.Errorf("what the collector got: %v, %v", err, r.Header)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range got.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					spans[s.GetName()] = s
				}
			}
		}
	}))
	t.Cleanup(otlp.Close)
	told := make(chan map[string]any, 1)
	server := sdk.NewServer(&sdk.Implementation{Name: "told", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "echo", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		told <- r.Params.GetMeta()
		return &sdk.CallToolResult{}, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(web.Close)

	h := newHome(t)
	h.env["COLLECTOR_KEY"] = "of the collector"
	h.write(t, servers{"a": {"type": "http", "url": web.URL}}, map[string]any{
		"telemetry": map[string]any{"otlp": otlp.URL, "sample": 0, "headers": map[string]any{"X-Key": "${COLLECTOR_KEY}"}},
	})
	p, url := h.up(t)
	p.says(t, p.out, `ready +a `)
	client, err := sdk.NewClient(&sdk.Implementation{Name: "tester", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, flags := range []string{"01", "00"} {
		_, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "a__echo", Meta: sdk.Meta{"traceparent": "00-" + trace + "-" + span + "-" + flags, "baggage": "k=v"}})
		if err != nil {
			t.Fatal(err)
		}
		meta := <-told
		parent, _ := meta["traceparent"].(string)
		if meta["baggage"] != "k=v" || !strings.HasPrefix(parent, "00-"+trace+"-") || strings.Contains(parent, span) != (flags == "00") || !strings.HasSuffix(parent, flags) {
			t.Errorf("the server was told %v of a context with the flags %s", meta, flags)
		}
		if flags == "01" {
			defer func() {
				if request := spans["tools/call echo"]; hex.EncodeToString(request.GetSpanId()) != strings.Split(parent, "-")[2] {
					t.Errorf("the server was told of the span %s, and it is %x", parent, request.GetSpanId())
				}
			}()
		}
	}
	if code := p.stop(t, syscall.SIGTERM); code != exitOK { // which sends what is left
		t.Errorf("exit code %d", code)
	}
	mu.Lock()
	defer mu.Unlock()
	call, request := spans["tools/call a__echo"], spans["tools/call echo"]
	if call == nil || request == nil {
		t.Fatalf("the spans are %v", spans)
	}
	if hex.EncodeToString(call.GetTraceId()) != trace || hex.EncodeToString(call.GetParentSpanId()) != span ||
		string(request.GetParentSpanId()) != string(call.GetSpanId()) ||
		call.GetKind() != tracepb.Span_SPAN_KIND_SERVER || request.GetKind() != tracepb.Span_SPAN_KIND_CLIENT {
		t.Errorf("the call is\n%v\nthe request is\n%v", call, request)
	}
	phases := 0
	for name, s := range spans {
		if strings.HasPrefix(name, "toolgate ") {
			phases++
			if string(s.GetParentSpanId()) != string(call.GetSpanId()) || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() ||
				s.GetStartTimeUnixNano() < call.GetStartTimeUnixNano() || s.GetEndTimeUnixNano() > call.GetEndTimeUnixNano() {
				t.Errorf("the phase %v is not in the call %v", s, call)
			}
		}
	}
	if phases < 3 || spans["toolgate budget"] == nil {
		t.Errorf("%d phases are traced: %v", phases, spans)
	}
	got := make(map[string]string)
	for _, a := range call.GetAttributes() {
		got[a.GetKey()] = a.GetValue().GetStringValue()
	}
	for key, want := range map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.tool.name": "a__echo", "gen_ai.operation.name": "execute_tool",
		"network.transport": "tcp", "toolgate.server": "a", "toolgate.outcome": "ok",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	for key := range got {
		if strings.Contains(key, "argument") || strings.Contains(key, "subject") || strings.Contains(key, "tenant") {
			t.Errorf("a span has %s", key)
		}
	}
}
