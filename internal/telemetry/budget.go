package telemetry

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// budgetCounters count what happens to budgets, by their names, which come from
// the configuration; owners never appear.
type budgetCounters struct {
	charges  *prometheus.CounterVec
	granted  *grants // of charges
	warnings *prometheus.CounterVec
	left     *remaining
}

// granted is the outcome of most charges.
const granted = "granted"

// grants are the counters of charges that were granted, by budget: finding one by its
// labels takes longer than counting.
type grants struct {
	vec *prometheus.CounterVec

	mu  sync.RWMutex
	all map[string]prometheus.Counter
}

func (g *grants) of(budget string) prometheus.Counter {
	g.mu.RLock()
	c := g.all[budget]
	g.mu.RUnlock()
	if c != nil {
		return c
	}
	c = g.vec.WithLabelValues(value(budget), granted)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all) < maxBudgets {
		g.all[budget] = c
	}
	return c
}

func newBudgetCounters(c *catalog) budgetCounters {
	const name, help = "toolgate_budget_remaining_ratio", "What is left of a budget, from 0 to 1, for the owner who has the least left in a window that has not ended."
	b := budgetCounters{
		charges:  c.counters("toolgate_budget_charges_total", "Charges by budget and outcome: granted, refused, unavailable (the store did not answer), passed (likewise, and there is no limit).", "budget", "outcome"),
		warnings: c.counters("toolgate_budget_warnings_total", "Times that some owner of a budget has reached a part of its limit, in percent.", "budget", "percent"),
		left:     &remaining{desc: prometheus.NewDesc(name, help, []string{"budget"}, nil), budgets: make(map[string]map[owner]*left)},
	}
	b.granted = &grants{vec: b.charges, all: make(map[string]prometheus.Counter)}
	c.note(name, "gauge", help, []string{"budget"})
	c.registry.MustRegister(b.left)
	return b
}

// Charge is what happened to one charge of a budget.
type Charge struct {
	Budget, Outcome string
	Warned          int // the part of the limit in percent that it has reached; 0 for none
	// Of a charge that was granted by a budget with a limit: whose it is, what
	// is left for them from 0 to 1, and until when that counts.
	Measure, Owner string
	Limited        bool
	Left           float64
	Until          time.Time
}

// Budget counts one charge.
func (m *Metrics) Budget(c *Charge) {
	if c.Outcome == granted {
		m.budgets.granted.of(c.Budget).Inc()
	} else {
		m.budgets.charges.WithLabelValues(value(c.Budget), c.Outcome).Inc()
	}
	if c.Warned > 0 {
		m.budgets.warnings.WithLabelValues(value(c.Budget), strconv.Itoa(c.Warned)).Inc()
	}
	if c.Limited {
		m.budgets.left.note(c)
	}
}

// maxOwners is how many owners of one budget are watched: those with the least
// left.
const maxOwners = 64

type owner struct{ measure, key string }

type left struct {
	ratio float64
	until time.Time
}

// remaining knows what is left of budgets for those who have the least.
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
	who, now := owner{c.Measure, c.Owner}, left{c.Left, c.Until}
	if known := owners[who]; known != nil {
		*known = now
		return
	}
	if len(owners) >= maxOwners {
		most := who
		for other, l := range owners {
			if l.ratio > now.ratio && (most == who || l.ratio > owners[most].ratio) {
				most = other
			}
		}
		if most == who { // everybody watched has less
			return
		}
		delete(owners, most)
	}
	owners[who] = &left{c.Left, c.Until}
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
