package telemetry

import (
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// buckets are those of the OpenTelemetry semantic conventions for MCP, in
// seconds.
var buckets = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}

// maxTools bounds the tool label; what comes later is counted as "_other".
const maxTools = 2000

// Metrics are the gateway's counters. They are safe for concurrent use.
type Metrics struct {
	registry  *prometheus.Registry
	operation *prometheus.HistogramVec
	total     *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	denied    *prometheus.CounterVec
	sessions  prometheus.Gauge
	limited   *prometheus.CounterVec
	redis     prometheus.Gauge
	failures  prometheus.Counter
	state     *prometheus.GaugeVec
	mode      *prometheus.GaugeVec
	budgets   budgetCounters

	redisOnce sync.Once
	resilience
	redacted *prometheus.CounterVec
	results  *prometheus.CounterVec

	mu    sync.RWMutex
	tools map[string]bool
	kinds map[callKind]*callCounters
}

// callKind is what the counters of a call depend on.
type callKind struct{ method, transport, tool, outcome, code string }

// callCounters are the counters of one kind of calls. Those of calls that name
// no tool are nil but for the operation.
type callCounters struct {
	operation, duration prometheus.Observer
	total, denied       prometheus.Counter
}

// maxKinds bounds how many kinds of calls keep their counters at hand; those of
// others are looked up for each call.
const maxKinds = 4 * maxTools

// New returns the counters of one gateway of a version.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), tools: make(map[string]bool), kinds: make(map[callKind]*callCounters)}
	m.operation = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mcp_server_operation_duration_seconds", Help: "Duration of MCP operations served to clients.", Buckets: buckets,
	}, []string{"mcp_method_name", "network_transport", "outcome"})
	m.total = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tool_execution_total", Help: "Tool calls by exposed name and outcome.",
	}, []string{"tool_name", "status"})
	m.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tool_execution_duration", Help: "Duration of tool calls in seconds.", Buckets: buckets,
	}, []string{"tool_name"})
	m.denied = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tool_permission_denied", Help: "Refused tool calls by exposed name and kind of refusal.",
	}, []string{"tool_name", "kind"})
	m.sessions = prometheus.NewGauge(prometheus.GaugeOpts{Name: "toolgate_sessions", Help: "Open legacy sessions."})
	m.limited = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "toolgate_limited_total", Help: "What was refused or not heard because a limit of the section limits was reached, by that limit.",
	}, []string{"limit"})
	m.redis = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "toolgate_redis_up", Help: "1 while Redis answers, 0 while each gateway holds rates by itself.",
	})
	m.failures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "toolgate_redis_failures_total", Help: "How often Redis ceased to answer.",
	})
	m.state = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "toolgate_upstream_state", Help: "1 for the state that an upstream server is in.",
	}, []string{"server", "state"})
	m.mode = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "toolgate_mode", Help: "1 for the operating mode in force.",
	}, []string{"mode"})
	m.budgets = newBudgetCounters(m.registry)
	m.resilience = newResilience()
	m.addResults()
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "toolgate_build_info", Help: "Version of the gateway.",
	}, []string{"version", "go_version"})
	info.WithLabelValues(version, runtime.Version()).Set(1)
	m.registry.MustRegister(m.operation, m.total, m.duration, m.denied, m.sessions, m.limited, m.state, m.mode, info, m.breaker, m.opened, m.retries,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Call counts one closed call. tool is its exposed name where it exists, empty
// otherwise; code is the kind of refusal or error.
func (m *Metrics) Call(method, transport, tool, outcome, code string, took time.Duration) {
	if outcome != "denied" {
		code = ""
	}
	c := m.counters(callKind{method, transport, tool, outcome, code})
	c.operation.Observe(took.Seconds())
	if tool == "" {
		return
	}
	c.total.Inc()
	c.duration.Observe(took.Seconds())
	if c.denied != nil {
		c.denied.Inc()
	}
}

// counters returns those of a kind of calls.
func (m *Metrics) counters(k callKind) *callCounters {
	m.mu.RLock()
	c := m.kinds[k]
	m.mu.RUnlock()
	if c != nil {
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c = &callCounters{operation: m.operation.WithLabelValues(k.method, k.transport, k.outcome)}
	if k.tool != "" {
		tool := m.label(k.tool)
		c.total, c.duration = m.total.WithLabelValues(tool, k.outcome), m.duration.WithLabelValues(tool)
		if k.outcome == "denied" {
			c.denied = m.denied.WithLabelValues(tool, k.code)
		}
	}
	if len(m.kinds) < maxKinds {
		m.kinds[k] = c
	}
	return c
}

// label bounds the names that become labels; mu is held.
func (m *Metrics) label(tool string) string {
	if m.tools[tool] {
		return tool
	}
	if len(m.tools) >= maxTools {
		return "_other"
	}
	m.tools[tool] = true
	return tool
}

// Sessions sets the number of open sessions.
func (m *Metrics) Sessions(n int) { m.sessions.Set(float64(n)) }

// Limited counts something that a limit of the settings refuses.
func (m *Metrics) Limited(setting string) { m.limited.WithLabelValues(setting).Inc() }

// Redis says whether Redis answers. Its counters are shown from the first time on.
func (m *Metrics) Redis(up bool) {
	m.redisOnce.Do(func() { m.registry.MustRegister(m.redis, m.failures) })
	if up {
		m.redis.Set(1)
		return
	}
	m.redis.Set(0)
	m.failures.Inc()
}

// State sets the state of a server.
func (m *Metrics) State(server, state string) {
	m.state.DeletePartialMatch(prometheus.Labels{"server": server})
	m.state.WithLabelValues(server, state).Set(1)
}

// Mode sets the operating mode in force.
func (m *Metrics) Mode(mode string) {
	m.mode.Reset() // so that there is never more than one
	m.mode.WithLabelValues(mode).Set(1)
}

// Forget drops a server that is no longer configured.
func (m *Metrics) Forget(server string) {
	m.state.DeletePartialMatch(prometheus.Labels{"server": server})
	m.forget(server)
	m.redacted.DeletePartialMatch(prometheus.Labels{"server": server})
	m.results.DeletePartialMatch(prometheus.Labels{"server": server})
}

// Handler serves the counters in the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}
