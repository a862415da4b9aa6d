package telemetry

import "github.com/prometheus/client_golang/prometheus"

// searchCounters compare the places of called tools in the answers of searches with those
// that what was learned would have given them.
type searchCounters struct {
	compared prometheus.Counter
	places   *prometheus.CounterVec
}

func newSearchCounters(c *catalog) searchCounters {
	return searchCounters{
		compared: c.counters("toolgate_find_compared_total",
			"Successful calls after a search that was also ranked by what was learned (find.learning: shadow).").WithLabelValues(),
		places: c.counters("toolgate_find_reciprocal_places_total",
			"The sum of 1 divided by the place of the called tool, in the answers (served) and by what was learned (shadow); "+
				"divided by toolgate_find_compared_total it is the mean reciprocal rank.", "ranking"),
	}
}

// Compared counts a call whose tool had a place in the answer, and one by what was learned.
// Places count from 1; one below stands for not found.
func (m *Metrics) Compared(place, shadow int) {
	m.search.compared.Inc()
	for ranking, at := range map[string]int{"served": place, "shadow": shadow} {
		sum := 0.0
		if at > 0 {
			sum = 1 / float64(at)
		}
		m.search.places.WithLabelValues(ranking).Add(sum)
	}
}
