package telemetry

// Redacted counts secrets that were taken out of one message of a server.
func (m *Metrics) Redacted(server string, n int) {
	m.redacted.WithLabelValues(value(server)).Add(float64(n))
}

// Result counts a result of a server that was cut, did not fit its own output
// schema, or both.
func (m *Metrics) Result(server string, cut, invalid bool) {
	if cut {
		m.results.WithLabelValues(value(server), "cut").Inc()
	}
	if invalid {
		m.results.WithLabelValues(value(server), "output_invalid").Inc()
	}
}
