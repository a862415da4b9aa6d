package telemetry

import "github.com/prometheus/client_golang/prometheus"

// resilience are the counters of what the gateway does about servers that fail.
type resilience struct {
	breaker *prometheus.GaugeVec
	opened  *prometheus.CounterVec
	retries *prometheus.CounterVec
}

func newResilience() resilience {
	return resilience{
		breaker: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "toolgate_breaker_state", Help: "1 for the state of a circuit breaker that is not closed or has been; tool is empty for that of a whole server.",
		}, []string{"server", "tool", "state"}),
		opened: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "toolgate_breaker_opened_total", Help: "How often a circuit breaker opened.",
		}, []string{"server", "tool"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "toolgate_retries_total", Help: "Calls that were made again.",
		}, []string{"server"}),
	}
}

// Breaker notes a new state of a circuit breaker: closed, open or half-open.
// tool is the name at its server, empty for the breaker of the whole server; it
// is one that the operator has configured, so there are few.
func (m *Metrics) Breaker(server, tool, state string) {
	r := &m.resilience
	r.breaker.DeletePartialMatch(prometheus.Labels{"server": server, "tool": tool})
	r.breaker.WithLabelValues(server, tool, state).Set(1)
	if state == "open" {
		r.opened.WithLabelValues(server, tool).Inc()
	}
}

// Retried counts a call of a server that was made again.
func (m *Metrics) Retried(server string) { m.resilience.retries.WithLabelValues(server).Inc() }

// forget drops a server that is no longer configured.
func (r *resilience) forget(server string) {
	of := prometheus.Labels{"server": server}
	r.breaker.DeletePartialMatch(of)
	r.opened.DeletePartialMatch(of)
	r.retries.DeletePartialMatch(of)
}
