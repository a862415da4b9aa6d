package console

import (
	"net/http"

	"github.com/toolgate/toolgate/internal/admin"
)

// jobsData are calls that are in queues for workers.
type jobsData struct {
	Jobs []admin.Job
	Own  bool // only jobs of the person
	More int  // that are not shown
}

// shownJobs bounds the jobs of a page. The oldest come first.
const shownJobs = 500

// jobs lists the calls of this gateway that are in queues for workers.
func (v *visit) jobs() {
	d, who := &jobsData{Own: v.person.role < Auditor}, ""
	if d.Own {
		who = v.person.id.Key()
	}
	all := v.model.Jobs(who)
	d.Jobs = all[:min(len(all), shownJobs)]
	d.More = len(all) - len(d.Jobs)
	v.render(http.StatusOK, &page{Title: "Jobs", View: "jobs", Command: command("status", "--jobs"), Data: d})
}
