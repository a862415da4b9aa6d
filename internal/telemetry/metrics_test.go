package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/toolgate/toolgate/internal/telemetry"
)

func scrape(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	return w.Body.String()
}

// families reads a scrape with the parser of Prometheus.
func families(t *testing.T, m *telemetry.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation) // which every Prometheus reads
	all, err := parser.TextToMetricFamilies(strings.NewReader(scrape(t, m)))
	if err != nil {
		t.Fatalf("Prometheus cannot read this: %v", err)
	}
	return all
}

func contains(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("missing %s", want)
		}
	}
}

// Only denials of the gate count as denied, and callers are told apart as far as the
// operator wants.
func TestDenialsOfCallers(t *testing.T) {
	m := telemetry.New("v1")
	m.TellUsersApart(1)
	for _, c := range []struct{ user, code string }{{"ann", "denied"}, {"bob", "denied"}, {"ann", "governance"}, {"ann", "denied"}, {"ann", "rate_limited"}, {"ann", "invalid_arguments"}} {
		m.Call(&telemetry.Call{Method: "tools/call", Transport: "http", Server: "a", Tool: "a__b", Outcome: "denied", Code: c.code, User: c.user})
	}
	text := scrape(t, m)
	contains(t, text,
		`tool_permission_denied{kind="denied",tool_name="a__b",user_id="ann"} 2`,
		`tool_permission_denied{kind="denied",tool_name="a__b",user_id="_other"} 1`,
		`tool_permission_denied{kind="governance",tool_name="a__b",user_id="ann"} 1`,
		`toolgate_refusals_total{kind="rate_limited",tool_name="a__b"} 1`,
	)
	if strings.Count(text, "tool_permission_denied{") != 3 {
		t.Errorf("other refusals count as denied:\n%s", text)
	}
}

func TestMetrics(t *testing.T) {
	m := telemetry.New("v1")
	m.Call(&telemetry.Call{Method: "tools/call", Transport: "http", Server: "a", Tool: "a__b", Outcome: "ok", Took: 30 * time.Millisecond, Upstream: 15 * time.Millisecond})
	m.Call(&telemetry.Call{Method: "tools/call", Transport: "http", Server: "a", Tool: "a__b", Outcome: "denied", Code: "budget", Took: time.Millisecond})
	m.Call(&telemetry.Call{Method: "tools/call", Transport: "http", Server: "a", Tool: "a__b", Outcome: "denied", Code: "denied", User: "ann", Took: time.Millisecond})
	m.Call(&telemetry.Call{Method: "tools/call", Transport: "http", Server: "a", Tool: "a__b", Outcome: "error", Code: "upstream_error", Took: time.Millisecond})
	m.Call(&telemetry.Call{Method: "tools/call", Transport: "http", Server: "a", Tool: "a__b", Outcome: "tool_error", Took: time.Millisecond, Upstream: time.Millisecond})
	m.Call(&telemetry.Call{Method: "resources/read", Transport: "stdio", Outcome: "error", Code: "-31999", Took: time.Millisecond})
	m.Served("tools/list", "sse", time.Millisecond, false)
	m.Served("ping", "stdio", time.Millisecond, true)
	m.Decided("registry", "allow")
	m.Decided("registry", "allow")
	m.Decided("budget", "deny")
	m.Discovered("bot", 4)
	m.Discovered("bot", 3)
	m.Discovered("", 9)
	m.Mode("NORMAL")
	m.Mode("DEGRADED")
	m.Sessions(3)
	m.SessionEnded("stdio", time.Minute)
	m.WatchCalls(func() int { return 5 })
	m.Approvals(2)
	m.Started()
	m.Reloaded(nil)
	m.Reloaded(errBroken)
	m.WatchAudit(func() telemetry.AuditStats { return telemetry.AuditStats{Written: 7, Lost: 1} })
	text := scrape(t, m)
	contains(t, text,
		`tool_execution_total{status="ok",tool_name="a__b"} 1`,
		`toolgate_refusals_total{kind="budget",tool_name="a__b"} 1`,
		`toolgate_refusals_total{kind="denied",tool_name="a__b"} 1`,
		`tool_permission_denied{kind="denied",tool_name="a__b",user_id=""} 1`,
		`tool_discovery_count{agent_id="bot"} 3`,
		`tool_discovery_count{agent_id=""} 9`,
		`toolgate_tool_lists_total{agent_id="bot"} 2`,
		`toolgate_sessions 3`,
		`toolgate_calls_in_flight 5`,
		`toolgate_mode{mode="DEGRADED"} 1`,
		`mcp_server_operation_duration_seconds_bucket{error_type="",mcp_method_name="tools/call",network_transport="tcp",outcome="ok",le="0.05"} 1`,
		`mcp_server_operation_duration_seconds_count{error_type="tool_error",mcp_method_name="tools/call",network_transport="tcp",outcome="tool_error"} 1`,
		`mcp_server_operation_duration_seconds_count{error_type="_other",mcp_method_name="resources/read",network_transport="pipe",outcome="error"} 1`,
		`mcp_server_operation_duration_seconds_count{error_type="",mcp_method_name="tools/list",network_transport="tcp",outcome="ok"} 1`,
		`mcp_server_operation_duration_seconds_count{error_type="error",mcp_method_name="ping",network_transport="pipe",outcome="error"} 1`,
		`mcp_client_operation_duration_seconds_bucket{error_type="",mcp_method_name="tools/call",server="a",le="0.02"} 1`,
		`mcp_server_session_duration_seconds_sum{network_transport="pipe"} 60`,
		`toolgate_decisions_total{decision="allow",phase="registry"} 2`,
		`toolgate_decisions_total{decision="deny",phase="budget"} 1`,
		`toolgate_approvals_pending 2`,
		`toolgate_reload_total{result="success"} 1`,
		`toolgate_reload_total{result="error"} 1`,
		`toolgate_reload_last_successful 0`,
		`toolgate_audit_entries_total 7`,
		`toolgate_audit_dropped_total 1`,
	)
	if strings.Contains(text, `mode="NORMAL"`) {
		t.Error("a mode that was left is still reported")
	}
	if strings.Contains(text, `mcp_client_operation_duration_seconds_count{error_type="budget"`) {
		t.Error("a call that no server saw has a time at a server")
	}
}

// What is documented is what is exported, with the same labels and types.
func TestDescribed(t *testing.T) {
	m := telemetry.New("v1")
	everything(m)
	all := families(t, m)
	known := make(map[string]telemetry.Metric)
	for _, d := range m.Described() {
		known[d.Name] = d
		family := all[d.Name]
		if family == nil {
			t.Errorf("%s is documented and not exported", d.Name)
			continue
		}
		if got := strings.ToLower(family.GetType().String()); got != d.Type || family.GetHelp() != d.Help {
			t.Errorf("%s is a %s (%s), documented as %s", d.Name, got, family.GetHelp(), d.Type)
		}
		for _, one := range family.GetMetric() {
			var labels []string
			for _, l := range one.GetLabel() {
				labels = append(labels, l.GetName())
			}
			if strings.Join(labels, " ") != strings.Join(d.Labels, " ") {
				t.Errorf("%s has the labels %v, documented are %v", d.Name, labels, d.Labels)
			}
		}
	}
	for name := range all {
		if _, ok := known[name]; !ok && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is exported and not documented", name)
		}
	}
}

// everything has every metric shown once.
func everything(m *telemetry.Metrics) {
	m.Call(&telemetry.Call{Method: "tools/call", Transport: "http", Server: "a", Tool: "a__b", Outcome: "denied", Code: "governance", Took: 1, Upstream: 1})
	m.Discovered("bot", 1)
	m.Decided("registry", "allow")
	m.Mode("NORMAL")
	m.SessionEnded("http", 1)
	m.Reloaded(nil)
	m.State("a", "ready", true)
	m.State("a", "failed", false)
	m.PolicyFailed("tool.view")
	m.Limited("body")
	m.Redis(true)
	m.Redacted("a", 1)
	m.Intercepted("dlp", "before", "pass", time.Millisecond)
	m.Saved("a", 1000)
	m.Compared(2, 1)
	m.Result("a", true, true)
	m.Breaker("a", "t", "open")
	m.Retried("a")
	m.Budget(&telemetry.Charge{Budget: "b", Outcome: "granted", Warned: 80, Limited: true, Left: 0.2, Until: time.Now().Add(time.Hour)})
	m.WatchAudit(func() telemetry.AuditStats { return telemetry.AuditStats{} })
	m.WatchTraces(func() uint64 { return 0 })
	m.WatchCalls(func() int { return 0 })
	m.WatchFeedback("webhook", func() (uint64, uint64) { return 1, 2 })
	m.WatchFeedback("kafka", func() (uint64, uint64) { return 3, 4 })
}

// TestCompared has the sums of which a mean reciprocal rank is made.
func TestCompared(t *testing.T) {
	m := telemetry.New("v1")
	m.Compared(2, 1)
	m.Compared(4, -1)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	for _, want := range []string{
		"toolgate_find_compared_total 2\n", `toolgate_find_reciprocal_places_total{ranking="served"} 0.75` + "\n", `toolgate_find_reciprocal_places_total{ranking="shadow"} 1` + "\n",
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestServerStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.New("v1")
		m.State("files", "starting", false)
		m.State("files", "ready", true)
		time.Sleep(4 * time.Second)
		m.State("files", "degraded", true) // it is still the same connection
		time.Sleep(3 * time.Second)
		m.State("files", "reconnecting", false)
		m.State("gone", "ready", true)
		time.Sleep(time.Second)
		m.Forget("gone")
		text := scrape(t, m)
		contains(t, text,
			`toolgate_upstream_state{server="files",state="reconnecting"} 1`,
			`toolgate_upstream_up{server="files"} 0`,
			`mcp_client_session_duration_seconds_sum{server="files"} 7`,
			`mcp_client_session_duration_seconds_sum{server="gone"} 1`,
		)
		for _, not := range []string{`state="ready"`, `toolgate_upstream_up{server="gone"}`} {
			if strings.Contains(text, not) {
				t.Errorf("%s is still reported", not)
			}
		}
	})
}
