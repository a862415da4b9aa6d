package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// budgetCounters count what happens to budgets, by their names, which come from
// the configuration; owners never appear.
type budgetCounters struct {
	charges  *prometheus.CounterVec
	warnings *prometheus.CounterVec
}

func newBudgetCounters(r *prometheus.Registry) budgetCounters {
	c := budgetCounters{
		charges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "toolgate_budget_charges_total",
			Help: "Charges by budget and outcome: granted, refused, unavailable (the store did not answer), passed (likewise, and there is no limit).",
		}, []string{"budget", "outcome"}),
		warnings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "toolgate_budget_warnings_total", Help: "Times that some owner of a budget has reached a part of its limit, in percent.",
		}, []string{"budget", "percent"}),
	}
	r.MustRegister(c.charges, c.warnings)
	return c
}

// Budget counts one charge. warned is the part of the limit in percent that it has
// reached, 0 for none.
func (m *Metrics) Budget(budget, outcome string, warned int) {
	m.budgets.charges.WithLabelValues(budget, outcome).Inc()
	if warned > 0 {
		m.budgets.warnings.WithLabelValues(budget, strconv.Itoa(warned)).Inc()
	}
}
