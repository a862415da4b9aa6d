package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// sessionCounters are metrics of client sessions.
type sessionCounters struct {
	open  prometheus.Gauge
	ended *prometheus.HistogramVec
}

func newSessionCounters(c *catalog) sessionCounters {
	return sessionCounters{
		open: c.gauges("toolgate_sessions", "Open sessions of clients.").WithLabelValues(),
		ended: c.histograms("mcp_server_session_duration_seconds",
			"How long sessions of clients lasted that have ended (mcp.server.session.duration). Clients of 2026-07-28 over HTTP have none.", "network_transport"),
	}
}

// Sessions sets the number of open sessions.
func (m *Metrics) Sessions(n int) { m.sessions.open.Set(float64(n)) }

// SessionEnded counts an ended client session of a binding.
func (m *Metrics) SessionEnded(binding string, lasted time.Duration) {
	m.sessions.ended.WithLabelValues(Transport(binding)).Observe(lasted.Seconds())
}

// WatchCalls exports the number of calls that are under way. read is called at each scrape
// and must not block. Call it once.
func (m *Metrics) WatchCalls(read func() int) {
	const name, help = "toolgate_calls_in_flight", "Calls that are under way."
	m.catalog.note(name, "gauge", help, nil)
	m.catalog.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) }))
}
