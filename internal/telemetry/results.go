package telemetry

import "github.com/prometheus/client_golang/prometheus"

// addResults makes and registers the counters of what was done with results.
func (m *Metrics) addResults() {
	m.redacted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "toolgate_redacted_total", Help: "Secrets that were taken out of what a server said.",
	}, []string{"server"})
	m.results = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "toolgate_result_total", Help: "Results that were not passed on as they came: cut, or invalid by their own output schema.",
	}, []string{"server", "what"})
	m.registry.MustRegister(m.redacted, m.results)
}

// Redacted counts secrets that were taken out of one message of a server.
func (m *Metrics) Redacted(server string, n int) { m.redacted.WithLabelValues(server).Add(float64(n)) }

// Result counts a result of a server that was cut, did not fit its own output
// schema, or both.
func (m *Metrics) Result(server string, cut, invalid bool) {
	if cut {
		m.results.WithLabelValues(server, "cut").Inc()
	}
	if invalid {
		m.results.WithLabelValues(server, "output_invalid").Inc()
	}
}
