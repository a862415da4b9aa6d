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

// buckets are those of the OpenTelemetry semantic conventions for MCP, in seconds.
var buckets = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}

// Metrics are the gateway's counters. They are safe for concurrent use. Every label has
// a bounded number of values; others are counted as "_other".
type Metrics struct {
	catalog catalog

	calls     callCounters
	decisions decisionCounters
	sessions  sessionCounters
	servers   serverCounters
	operate   operateCounters
	budgets   budgetCounters
	search    searchCounters
	limited   *prometheus.CounterVec
	redacted  *prometheus.CounterVec
	asked     *prometheus.HistogramVec // interceptors
	failed    *prometheus.CounterVec   // failed policy decisions
	results   *prometheus.CounterVec
	saved     *prometheus.CounterVec
	resilience

	redis     prometheus.Gauge
	failures  prometheus.Counter
	redisOnce sync.Once
}

// New returns the counters of a gateway with this version.
func New(version string) *Metrics {
	m := &Metrics{catalog: catalog{registry: prometheus.NewRegistry()}}
	c := &m.catalog
	m.calls = newCallCounters(c)
	m.decisions = newDecisionCounters(c)
	m.sessions = newSessionCounters(c)
	m.servers = newServerCounters(c)
	m.operate = newOperateCounters(c)
	m.budgets = newBudgetCounters(c)
	m.search = newSearchCounters(c)
	m.resilience = newResilience(c)
	m.limited = c.counters("toolgate_limited_total", "What was refused or not heard because a limit of the section limits was reached, by that limit.", "limit")
	m.failed = c.counters("toolgate_policy_failures_total",
		"Decisions that the policy could not make about one thing, which is denied and hidden, by what it was asked; those for lists included.", "action")
	m.redacted = c.counters("toolgate_redacted_total", "Secrets that were taken out of what a server said.", "server")
	m.asked = c.histograms("toolgate_interceptor_duration_seconds",
		"How long interceptors took, by what they said of a call (before) or its result (after).", "interceptor", "phase", "verdict")
	m.saved = c.counters("toolgate_result_saved_bytes_total", "Bytes that results had less when they were passed on, because they were shaped.", "server")
	m.results = c.counters("toolgate_result_total", "Results that were not passed on as they came: cut, or invalid by their own output schema.", "server", "what")
	c.gauges("toolgate_build_info", "1, with the version of the gateway.", "version", "go_version").WithLabelValues(version, runtime.Version()).Set(1)

	const up, lost = "1 while Redis answers, 0 while each gateway counts rate limits on its own.", "How often Redis ceased to answer."
	m.redis = prometheus.NewGauge(prometheus.GaugeOpts{Name: "toolgate_redis_up", Help: up})
	m.failures = prometheus.NewCounter(prometheus.CounterOpts{Name: "toolgate_redis_failures_total", Help: lost})
	c.note("toolgate_redis_up", "gauge", up, nil)
	c.note("toolgate_redis_failures_total", "counter", lost, nil)

	c.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Limited counts a refusal by a limit.
func (m *Metrics) Limited(setting string) { m.limited.WithLabelValues(value(setting)).Inc() }

// Intercepted counts what an interceptor said.
func (m *Metrics) Intercepted(interceptor, phase, verdict string, took time.Duration) {
	m.asked.WithLabelValues(value(interceptor), phase, verdict).Observe(took.Seconds())
}

// PolicyFailed counts a policy decision that failed.
func (m *Metrics) PolicyFailed(action string) { m.failed.WithLabelValues(value(action)).Inc() }

// Redis reports whether Redis answers. Its counters appear from the first report on.
func (m *Metrics) Redis(up bool) {
	m.redisOnce.Do(func() { m.catalog.registry.MustRegister(m.redis, m.failures) })
	if up {
		m.redis.Set(1)
		return
	}
	m.redis.Set(0)
	m.failures.Inc()
}

// Forget removes a server that is no longer configured.
func (m *Metrics) Forget(server string) {
	m.servers.forget(server)
	m.resilience.forget(server)
	m.redacted.DeletePartialMatch(prometheus.Labels{"server": server})
	m.saved.DeletePartialMatch(prometheus.Labels{"server": server})
	m.results.DeletePartialMatch(prometheus.Labels{"server": server})
}

// Handler serves the counters in the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.catalog.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}
