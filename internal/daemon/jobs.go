package daemon

import (
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
)

// Jobs implements [admin.Jobs].
func (ctl *Control) Jobs(q admin.JobQuery) []admin.Job {
	limit := admin.MaxJobs
	if q.Limit > 0 {
		limit = min(q.Limit, limit)
	}
	out := []admin.Job{}
	for _, j := range ctl.d.queues.Jobs(q.Principal, q.After.Since, q.After.ID, limit) {
		one := admin.Job{ID: j.ID, Queue: j.Queue, Tool: j.Tool, Task: j.Task, Repeats: j.Repeats, Since: j.Since, Deadline: j.Deadline}
		if who, ok := gate.ParsePrincipal(j.Principal); ok {
			one.Caller = who.Subject + " of " + who.Tenant
		}
		out = append(out, one)
	}
	return out
}
