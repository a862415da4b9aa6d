package telemetry

import "github.com/prometheus/client_golang/prometheus"

// resilience are the metrics about failing servers.
type resilience struct {
	breaker *prometheus.GaugeVec
	opened  *prometheus.CounterVec
	retries *prometheus.CounterVec
}

func newResilience(c *catalog) resilience {
	return resilience{
		breaker: c.gauges("toolgate_breaker_state", "1 for the state of a circuit breaker that is not closed or has been; tool is empty for that of a whole server.", "server", "tool", "state"),
		opened:  c.counters("toolgate_breaker_opened_total", "How often a circuit breaker opened.", "server", "tool"),
		retries: c.counters("toolgate_retries_total", "Retries of calls.", "server"),
	}
}

// Breaker records the state of a circuit breaker: closed, open or half-open. tool is
// the name at the server, empty for the server's breaker. Only configured tools have
// breakers, so there are few.
func (m *Metrics) Breaker(server, tool, state string) {
	r := &m.resilience
	server, tool = value(server), value(tool)
	r.breaker.DeletePartialMatch(prometheus.Labels{"server": server, "tool": tool})
	r.breaker.WithLabelValues(server, tool, state).Set(1)
	if state == "open" {
		r.opened.WithLabelValues(server, tool).Inc()
	}
}

// Retried counts a retried call of a server.
func (m *Metrics) Retried(server string) { m.resilience.retries.WithLabelValues(value(server)).Inc() }

// forget removes a server that is no longer configured.
func (r *resilience) forget(server string) {
	server = value(server)
	of := prometheus.Labels{"server": server}
	r.breaker.DeletePartialMatch(of)
	r.opened.DeletePartialMatch(of)
	r.retries.DeletePartialMatch(of)
}
