package telemetry

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric describes one metric, for the documentation and for checks of queries.
type Metric struct {
	Name   string
	Type   string // counter, gauge or histogram
	Help   string
	Labels []string // sorted
}

// catalog creates and registers metrics, and remembers their descriptions.
type catalog struct {
	registry *prometheus.Registry
	metrics  []Metric
}

func (c *catalog) note(name, kind, help string, labels []string) {
	labels = slices.Clone(labels)
	slices.Sort(labels)
	c.metrics = append(c.metrics, Metric{Name: name, Type: kind, Help: help, Labels: labels})
}

func (c *catalog) has(name string) bool {
	return slices.ContainsFunc(c.metrics, func(m Metric) bool { return m.Name == name })
}

func (c *catalog) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c.note(name, "counter", help, labels)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	c.registry.MustRegister(v)
	return v
}

func (c *catalog) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	c.note(name, "gauge", help, labels)
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	c.registry.MustRegister(v)
	return v
}

func (c *catalog) histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	c.note(name, "histogram", help, labels)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	c.registry.MustRegister(v)
	return v
}

// Described returns the gateway's own metrics, sorted by name, without those of the Go
// runtime and the process.
func (m *Metrics) Described() []Metric {
	all := slices.Clone(m.catalog.metrics)
	slices.SortFunc(all, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	return all
}
