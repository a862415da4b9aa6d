package console

import (
	"errors"
	"net/http"
	"slices"

	"github.com/toolgate/toolgate/internal/admin"
)

// runsData are runs of agents.
type runsData struct {
	State  string
	States []string
	Runs   []admin.Run
	Own    bool   // only runs of the person
	Next   string // URL of the next page; empty for the last one
	Down   string
}

// shownRuns is how many runs a page has.
const shownRuns = 50

// functionStep is the kind of a step in which the caller runs a function of its own.
const functionStep = "function"

// runStates are the states of runs that the page selects.
var runStates = []string{"running", "waiting", "interrupted", "limit", "completed", "failed", "cancelled"}

// runs lists the latest runs of agents.
func (v *visit) runs() {
	d := &runsData{State: v.r.FormValue("state"), States: runStates, Own: v.person.role < Auditor}
	q := admin.RunQuery{State: d.State, Limit: shownRuns + 1}
	if d.Own {
		q.Principal = v.person.id.Key()
	}
	words := []string{"runs", "ls"}
	if d.State != "" {
		words = append(words, "--state="+d.State)
	}
	if d.State != "" && !slices.Contains(runStates, d.State) {
		v.missing()
		return
	}
	var ok bool
	if q.Before.CreatedAt, q.Before.ID, ok = v.place("before"); !ok {
		v.missing()
		return
	}
	found, err := v.model.Runs(v.r.Context(), q)
	if err != nil {
		d.Down = err.Error()
	}
	if len(found) > shownRuns {
		found = found[:shownRuns]
		last := &found[shownRuns-1]
		d.Next = v.pageBehind("before", last.CreatedAt, last.ID)
	}
	d.Runs = found
	v.render(http.StatusOK, &page{Title: "Runs", View: "runs", Command: command(words...), Data: d})
}

// runData is one run with its steps.
type runData struct {
	ID       string
	Run      *admin.RunDetails
	Payloads bool // the person may see what was asked and answered
	Down     string
}

// run shows one run: to its owner and to administrators with what was asked and answered, to
// auditors without.
func (v *visit) run() {
	id := v.r.PathValue("id")
	d := &runData{ID: id, Payloads: true}
	p := &page{Title: "Run", View: "run", Command: command("runs", "show", id), Data: d}
	owner := ""
	if v.person.role < Admin {
		owner = v.person.id.Key()
		end, ok := v.reading.begin(owner)
		if !ok {
			d.Down = "You read other calls at the moment. Wait until they are there."
			v.render(http.StatusTooManyRequests, p)
			return
		}
		defer end()
	}
	run, err := v.model.Run(v.r.Context(), id, owner)
	if errors.Is(err, admin.ErrNoRun) && v.person.role == Auditor {
		d.Payloads = false
		run, err = v.model.Run(v.r.Context(), id, "")
		veilRun(&run)
	}
	switch {
	case errors.Is(err, admin.ErrNoRun):
		v.missing()
		return
	case err != nil:
		d.Down = err.Error()
		v.render(http.StatusServiceUnavailable, p)
		return
	}
	d.Run = &run
	v.render(http.StatusOK, p)
}

// veilRun takes away what a run carries, and why it has ended, which an agent may have written.
// The caller has named its functions.
func veilRun(r *admin.RunDetails) {
	r.Task, r.Reason, r.Text = "", "", ""
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Asked, s.Answer = "", ""; s.Kind == functionStep {
			s.Name = ""
		}
	}
}
