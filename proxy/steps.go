package proxy

import (
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
)

// maxSteps is how many steps of a call are kept; what comes behind is not.
const maxSteps = 16

// Verdicts of steps that are none of the gate's.
const (
	verdictPass = "pass"
	verdictDeny = "deny"
	verdictAsk  = "ask"
	verdictFail = "error"
)

// step notes what a phase says. It is on the path of every call: the steps are
// a part of the record.
func (rec *record) step(phase, verdict, rule, rev string) {
	n := len(rec.entry.Steps)
	if n == maxSteps {
		return
	}
	if n == 0 {
		rec.entry.Steps = rec.steps[:0]
	}
	rec.entry.Steps = append(rec.entry.Steps, audit.Step{
		Phase: phase, Verdict: verdict, Rule: rule, Revision: rev, US: time.Since(rec.began).Microseconds(),
	})
}

// passed notes that a phase lets the call go on.
func (rec *record) passed(phase string) { rec.step(phase, verdictPass, "", "") }

// Said implements [gate.Listener].
func (rec *record) Said(phase string, d gate.Decision) {
	verdict := d.Effect.String()
	if d.Err != nil {
		verdict = verdictFail
	}
	rec.step(phase, verdict, d.Reason, d.Revision)
}

// viewed notes what came of the question whether the caller may view it.
func (rec *record) viewed(d gate.Decision) {
	phase := "view"
	if d.Effect != gate.Allow {
		phase = "view/" + d.Phase
	}
	if rec.unseen = (gate.Decision{}); d.Undecidable() {
		rec.unseen = d
	}
	rec.Said(phase, d)
}
