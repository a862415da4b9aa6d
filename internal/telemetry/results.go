package telemetry

// Redacted counts secrets that were removed from one message of a server.
func (m *Metrics) Redacted(server string, n int) {
	m.redacted.WithLabelValues(value(server)).Add(float64(n))
}

// Saved counts the bytes that a result of a server had less because it was shaped.
func (m *Metrics) Saved(server string, bytes int64) {
	m.saved.WithLabelValues(value(server)).Add(float64(bytes))
}

// Result counts a result of a server that was truncated, or did not match its own
// output schema.
func (m *Metrics) Result(server string, cut, invalid bool) {
	if cut {
		m.results.WithLabelValues(value(server), "cut").Inc()
	}
	if invalid {
		m.results.WithLabelValues(value(server), "output_invalid").Inc()
	}
}
