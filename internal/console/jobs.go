package console

import (
	"net/http"

	"github.com/toolgate/toolgate/internal/admin"
)

// jobsData are calls that are in queues for workers.
type jobsData struct {
	Jobs []admin.Job
	Own  bool   // only jobs of the person
	Next string // URL of the next page; empty for the last one
}

// shownJobs is how many jobs a page has.
const shownJobs = 50

// jobs lists calls of this gateway that are in queues for workers.
func (v *visit) jobs() {
	d, q := &jobsData{Own: v.person.role < Auditor}, admin.JobQuery{Limit: shownJobs + 1}
	if d.Own {
		q.Principal = v.person.id.Key()
	}
	var ok bool
	if q.After.Since, q.After.ID, ok = v.place("after"); !ok {
		v.missing()
		return
	}
	found := v.model.Jobs(q)
	if len(found) > shownJobs {
		found = found[:shownJobs]
		last := &found[shownJobs-1]
		d.Next = v.pageBehind("after", last.Since, last.ID)
	}
	d.Jobs = found
	v.render(http.StatusOK, &page{Title: "Jobs", View: "jobs", Command: command("status", "--jobs"), Data: d})
}
