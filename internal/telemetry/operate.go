package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// operateCounters are metrics for operators.
type operateCounters struct {
	mode     *prometheus.GaugeVec
	reloads  *prometheus.CounterVec
	good     prometheus.Gauge
	reloaded prometheus.Gauge
	pending  prometheus.Gauge
}

func newOperateCounters(c *catalog) operateCounters {
	return operateCounters{
		mode:     c.gauges("toolgate_mode", "1 for the operating mode in force.", "mode"),
		reloads:  c.counters("toolgate_reload_total", "Reloads of the configuration by result: success, or error, after which the old configuration stays in force.", "result"),
		good:     c.gauges("toolgate_reload_last_successful", "1 when the last reload, or the start, took the configuration over, 0 when it was refused.").WithLabelValues(),
		reloaded: c.gauges("toolgate_reload_last_success_timestamp_seconds", "When the configuration in force was read, in seconds since 1970.").WithLabelValues(),
		pending:  c.gauges("toolgate_approvals_pending", "Questions to people that wait for an answer.").WithLabelValues(),
	}
}

// Mode sets the operating mode in force.
func (m *Metrics) Mode(mode string) {
	m.operate.mode.Reset() // only one mode is in force
	m.operate.mode.WithLabelValues(mode).Set(1)
}

// Started reports that the initial configuration is in force.
func (m *Metrics) Started() {
	m.operate.good.Set(1)
	m.operate.reloaded.Set(float64(time.Now().UnixMilli()) / 1000)
}

// Reloaded counts a reload of the configuration.
func (m *Metrics) Reloaded(err error) {
	if err != nil {
		m.operate.reloads.WithLabelValues("error").Inc()
		m.operate.good.Set(0)
		return
	}
	m.operate.reloads.WithLabelValues("success").Inc()
	m.Started()
}

// Approvals sets the number of open questions.
func (m *Metrics) Approvals(pending int) { m.operate.pending.Set(float64(pending)) }

// AuditStats are counters of the audit log since it was opened.
type AuditStats struct {
	Written uint64 // entries passed to the operating system
	Lost    uint64 // dropped entries
}

// WatchTraces exports the number of dropped spans. read is called at each scrape and
// must not block. Call it once.
func (m *Metrics) WatchTraces(read func() uint64) {
	const name, help = "toolgate_trace_spans_dropped_total", "Spans that did not reach the collector."
	m.catalog.note(name, "counter", help, nil)
	m.catalog.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(read()) }))
}

// WatchFeedback exports how many executions a sink was sent, and how many were dropped.
// read is called at each scrape and must not block. Call it once for each sink.
func (m *Metrics) WatchFeedback(sink string, read func() (sent, dropped uint64)) {
	c := &m.catalog
	add := func(name, help string, value func() uint64) {
		if !c.has(name) {
			c.note(name, "counter", help, []string{"sink"})
		}
		c.registry.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"sink": sink}}, func() float64 { return float64(value()) }))
	}
	add("toolgate_feedback_sent_total", "Executions that a sink of the section feedback took.", func() uint64 { n, _ := read(); return n })
	add("toolgate_feedback_dropped_total", "Executions that a sink of the section feedback was not told of.", func() uint64 { _, n := read(); return n })
}

// WatchAudit exports the counters of the audit log. read is called at each scrape and
// must not block. Call it once.
func (m *Metrics) WatchAudit(read func() AuditStats) {
	c := &m.catalog
	add := func(name, help string, value func(AuditStats) uint64) {
		c.note(name, "counter", help, nil)
		c.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(value(read())) }))
	}
	add("toolgate_audit_entries_total", "Entries of the audit log that were written.", func(s AuditStats) uint64 { return s.Written })
	add("toolgate_audit_dropped_total", "Entries of the audit log that were given up.", func(s AuditStats) uint64 { return s.Lost })
}
