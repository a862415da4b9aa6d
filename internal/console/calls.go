package console

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
)

// callsData are calls that were found.
type callsData struct {
	Query callsForm
	Calls []admin.Call
	Next  string // URL of the next page; empty for the last one
	Own   bool   // only calls of the person
	// Roleless tells that neither the person nor one of their groups has a role.
	Roleless bool
	Down     string // why there are none to see
}

// callsForm is what somebody searches for, as it was written.
type callsForm struct{ Server, Tool, Tenant, Error, Since string }

// shownCalls is how many calls a page has.
const shownCalls = 25

// calls searches calls.
func (v *visit) calls() {
	form := callsForm{v.r.FormValue("server"), v.r.FormValue("tool"), v.r.FormValue("tenant"), v.r.FormValue("error"), v.r.FormValue("since")}
	d := &callsData{Query: form, Own: v.person.role < Auditor, Roleless: v.person.role == ViewerOwn}
	q := admin.CallQuery{Server: form.Server, Tool: form.Tool, Tenant: form.Tenant, Error: form.Error, Limit: shownCalls + 1}
	if d.Own {
		q.Principal = v.person.id.Key()
	}
	if form.Since != "" {
		ago, err := time.ParseDuration(form.Since)
		if err != nil || ago <= 0 {
			d.Down = "write since as a duration, such as 15m or 24h"
		}
		q.Since = time.Now().Add(-ago)
	}
	if before := v.r.FormValue("before"); before != "" {
		at, err := time.Parse(time.RFC3339Nano, before)
		_, rowErr := fmt.Sscan(v.r.FormValue("row"), &q.Before.Row)
		if q.Before.At = at; err != nil || rowErr != nil {
			v.missing()
			return
		}
	}
	if d.Down == "" {
		found, err := v.model.Calls(v.r.Context(), q)
		if err != nil {
			d.Down = err.Error()
		}
		if len(found) > shownCalls {
			found = found[:shownCalls]
			values := v.r.URL.Query()
			last := found[len(found)-1]
			values.Set("before", last.At.Format(time.RFC3339Nano))
			values.Set("row", fmt.Sprint(last.Row))
			d.Next = "/calls?" + values.Encode()
		}
		d.Calls = found
	}
	v.render(http.StatusOK, &page{Title: "Calls", View: "calls", Command: searchCommand(&form), Data: d})
}

// searchCommand finds the same calls in the audit log.
func searchCommand(f *callsForm) string {
	terms := []string{"kind=tool"}
	for _, term := range []struct{ field, value string }{{"server", f.Server}, {"tool", f.Tool}, {"tenant", f.Tenant}, {"since", f.Since}} {
		if term.value == "" {
			continue
		}
		value := term.value
		if strings.ContainsAny(value, " \"\t\n") {
			value = fmt.Sprintf("%q", value)
		}
		terms = append(terms, term.field+"="+value)
	}
	switch f.Error {
	case "":
	case "any":
		terms = append(terms, "outcome!=ok")
	case "none":
		terms = append(terms, "outcome=ok")
	}
	return command("audit", "search", fmt.Sprintf("--limit=%d", shownCalls), strings.Join(terms, " "))
}

// callData is one call with its waterfall.
type callData struct {
	ID       string
	Entries  []audit.Record
	Last     *audit.Record
	Bars     []bar
	Decided  string
	Down     string
	Payloads bool // the person may see what the call carried
}

// bar is one stretch of a call in its waterfall, in thousandths of the whole.
type bar struct {
	Name, Verdict, Rule, Revision string
	From, Width                   int // thousandths of the call
	At, US                        int64
}

// call shows one call.
func (v *visit) call() {
	id := v.r.PathValue("id")
	d := &callData{ID: id, Payloads: v.person.role >= Admin}
	if v.person.role < Auditor {
		end, ok := v.reading.begin(v.person.id.Key())
		if !ok {
			d.Down = "You read other calls at the moment. Wait until they are there."
			v.render(http.StatusTooManyRequests, &page{Title: "Call", View: "call", Command: command("audit", "show", id), Data: d})
			return
		}
		defer end()
	}
	found, err := v.model.ShowAudit(v.r.Context(), id)
	switch {
	case errors.Is(err, admin.ErrNoCall):
		v.missing()
		return
	case err != nil:
		d.Down = err.Error()
		v.render(http.StatusServiceUnavailable, &page{Title: "Call", View: "call", Command: command("audit", "show", id), Data: d})
		return
	}
	if v.person.role < Auditor && slices.ContainsFunc(found.Entries, func(r audit.Record) bool {
		return !v.person.is(r.Principal.Issuer, r.Principal.Tenant, r.Principal.Subject)
	}) {
		v.missing()
		return
	}
	d.Entries = found.Entries
	d.Last = &d.Entries[len(d.Entries)-1]
	d.Decided = d.Last.Decision()
	d.Bars = waterfall(&d.Last.Entry)
	if !d.Payloads && v.person.role >= Auditor {
		d.Last.Fields, d.Last.Inputs = nil, ""
	}
	v.render(http.StatusOK, &page{Title: "Call", View: "call", Command: command("audit", "show", id), Data: d})
}

// waterfall divides a call into its phases, the time in the server and the rest.
func waterfall(e *audit.Entry) []bar {
	whole := max(1, e.DurationUS)
	share := func(us int64) int { return int(min(1000, max(0, us*1000/whole))) }
	var bars []bar
	before := int64(0)
	for _, s := range e.Steps {
		at := min(max(s.US, before), whole)
		bars = append(bars, bar{Name: s.Phase, Verdict: s.Verdict, Rule: s.Rule, Revision: s.Revision, From: share(before), Width: max(2, share(at-before)), At: before, US: at - before})
		before = at
	}
	if e.UpstreamUS > 0 {
		bars = append(bars, bar{Name: "server " + e.Server, From: share(before), Width: max(2, share(e.UpstreamUS)), At: before, US: e.UpstreamUS})
		before += e.UpstreamUS
	}
	if rest := whole - before; rest > 0 {
		bars = append(bars, bar{Name: "answer", From: share(before), Width: max(2, share(rest)), At: before, US: rest})
	}
	return bars
}
