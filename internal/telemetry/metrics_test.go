package telemetry_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/telemetry"
)

func scrape(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	m := telemetry.New("v1")
	m.Call("tools/call", "http", "a__b", "ok", "", 30*time.Millisecond)
	m.Call("tools/call", "http", "a__b", "denied", "budget", time.Millisecond)
	m.Call("resources/read", "stdio", "", "ok", "", time.Millisecond)
	m.State("files", "starting")
	m.State("files", "ready")
	m.Mode("NORMAL")
	m.Mode("DEGRADED")
	m.Sessions(3)
	text := scrape(t, m)
	for _, want := range []string{
		`tool_execution_total{status="ok",tool_name="a__b"} 1`,
		`tool_permission_denied{kind="budget",tool_name="a__b"} 1`,
		`toolgate_upstream_state{server="files",state="ready"} 1`,
		`toolgate_sessions 3`,
		`toolgate_mode{mode="DEGRADED"} 1`,
		`mcp_server_operation_duration_seconds_bucket{mcp_method_name="tools/call",network_transport="http",outcome="ok",le="0.05"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %s", want)
		}
	}
	if strings.Contains(text, `state="starting"`) || strings.Contains(text, `mode="NORMAL"`) {
		t.Error("a state that was left is still reported")
	}
}

func TestToolLabelIsBounded(t *testing.T) {
	m := telemetry.New("v1")
	for i := range 2100 {
		m.Call("tools/call", "http", fmt.Sprintf("t%d", i), "ok", "", 0)
	}
	text := scrape(t, m)
	if got := strings.Count(text, "tool_execution_total{"); got != 2001 {
		t.Errorf("%d series, want 2001", got)
	}
	if !strings.Contains(text, `tool_execution_total{status="ok",tool_name="_other"} 100`) {
		t.Error("names beyond the bound are not counted as _other")
	}
}
