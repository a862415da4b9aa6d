package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// decisionCounters count the decisions of phases.
type decisionCounters struct {
	vector *prometheus.CounterVec
	// at is read for every phase of every call, and rarely changed.
	at *atomic.Pointer[map[decision]prometheus.Counter]

	mu    *sync.Mutex
	words *names
}

type decision struct{ phase, verdict string }

// maxDecisions bounds the cached counters of phases.
const maxDecisions = 256

func newDecisionCounters(c *catalog) decisionCounters {
	words := newNames(maxWords)
	d := decisionCounters{
		vector: c.counters("toolgate_decisions_total",
			"What the phases said of calls: allow, abstain, pass, ask, deny, or error where one could not decide.", "phase", "decision"),
		at: new(atomic.Pointer[map[decision]prometheus.Counter]), mu: new(sync.Mutex), words: &words,
	}
	d.at.Store(new(map[decision]prometheus.Counter))
	return d
}

// Decided counts a phase's decision on a call.
func (m *Metrics) Decided(phase, verdict string) {
	k := decision{phase, verdict}
	if c := (*m.decisions.at.Load())[k]; c != nil {
		c.Inc()
		return
	}
	m.decisions.add(k).Inc()
}

func (d *decisionCounters) add(k decision) prometheus.Counter {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.vector.WithLabelValues(d.words.label(k.phase), d.words.label(k.verdict))
	if before := *d.at.Load(); len(before) < maxDecisions {
		after := make(map[decision]prometheus.Counter, len(before)+1)
		maps.Copy(after, before)
		after[k] = c
		d.at.Store(&after)
	}
	return c
}
