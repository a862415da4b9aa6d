package telemetry

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// budgetCounters count the outcomes of budgets by name. Names come from the
// configuration; owners never appear.
type budgetCounters struct {
	charges  *chargeCounters
	warnings *prometheus.CounterVec
	left     *remaining
}

// chargeCounters cache the counters of charges, because finding one by its labels takes
// longer than counting.
type chargeCounters struct {
	vec *prometheus.CounterVec

	mu  sync.RWMutex
	all map[charged]prometheus.Counter
}

type charged struct{ budget, outcome string }

// maxCharged bounds the cached counters.
const maxCharged = 4 * maxBudgets

func (c *chargeCounters) of(k charged) prometheus.Counter {
	c.mu.RLock()
	counter := c.all[k]
	c.mu.RUnlock()
	if counter != nil {
		return counter
	}
	counter = c.vec.WithLabelValues(value(k.budget), k.outcome)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) < maxCharged {
		c.all[k] = counter
	}
	return counter
}

func newBudgetCounters(c *catalog) budgetCounters {
	const name, help = "toolgate_budget_remaining_ratio", "What is left of a budget, from 0 to 1, for the owner who has the least left in a window that has not ended."
	b := budgetCounters{
		charges: &chargeCounters{
			vec: c.counters("toolgate_budget_charges_total", "Charges by budget and outcome: granted, refused, unavailable (the store did not answer), passed (likewise, and there is no limit).", "budget", "outcome"),
			all: make(map[charged]prometheus.Counter),
		},
		warnings: c.counters("toolgate_budget_warnings_total", "Times that some owner of a budget has reached a part of its limit, in percent.", "budget", "percent"),
		left:     &remaining{desc: prometheus.NewDesc(name, help, []string{"budget"}, nil), budgets: make(map[string]map[owner]*left)},
	}
	c.note(name, "gauge", help, []string{"budget"})
	c.registry.MustRegister(b.left)
	return b
}

// Charge is the outcome of one charge of a budget.
type Charge struct {
	Budget, Outcome string
	Warned          int // threshold of the limit that was reached, in percent; 0 for none
	// Of a granted charge with a limit: its owner, the remaining share from 0 to 1, and
	// the end of the window.
	Measure, Owner string
	Limited        bool
	Left           float64
	Until          time.Time
}

// Budget counts one charge.
func (m *Metrics) Budget(c *Charge) {
	m.budgets.charges.of(charged{c.Budget, c.Outcome}).Inc()
	if c.Warned > 0 {
		m.budgets.warnings.WithLabelValues(value(c.Budget), strconv.Itoa(c.Warned)).Inc()
	}
	if c.Limited {
		m.budgets.left.note(c)
	}
}

// maxOwners bounds the tracked owners of one budget: those with the least left.
const maxOwners = 64

type owner struct{ measure, key string }

type left struct {
	ratio float64
	until time.Time
}

// remaining tracks the owners with the least left of each budget.
type remaining struct {
	desc *prometheus.Desc

	mu      sync.Mutex
	budgets map[string]map[owner]*left
}

func (r *remaining) note(c *Charge) {
	r.mu.Lock()
	defer r.mu.Unlock()
	owners := r.budgets[c.Budget]
	if owners == nil {
		if len(r.budgets) >= maxBudgets {
			return
		}
		owners = make(map[owner]*left)
		r.budgets[c.Budget] = owners
	}
	who := owner{c.Measure, c.Owner}
	l := owners[who]
	if l == nil {
		if len(owners) >= maxOwners && !makeRoom(owners, c.Left) {
			return
		}
		l = new(left)
		owners[who] = l
	}
	l.ratio, l.until = c.Left, c.Until
}

// makeRoom removes the owner with the most left. It returns false if all have less left
// than the new one.
func makeRoom(owners map[owner]*left, ratio float64) bool {
	var most owner
	found := false
	for other, l := range owners {
		if l.ratio > ratio && (!found || l.ratio > owners[most].ratio) {
			most, found = other, true
		}
	}
	if found {
		delete(owners, most)
	}
	return found
}

// Describe implements [prometheus.Collector].
func (r *remaining) Describe(out chan<- *prometheus.Desc) { out <- r.desc }

// Collect implements [prometheus.Collector].
func (r *remaining) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for budget, owners := range r.budgets {
		least := 1.0
		for who, l := range owners {
			if !l.until.After(now) { // of a window that has ended
				delete(owners, who)
				continue
			}
			least = min(least, l.ratio)
		}
		out <- prometheus.MustNewConstMetric(r.desc, prometheus.GaugeValue, max(0, least), value(budget))
	}
}
