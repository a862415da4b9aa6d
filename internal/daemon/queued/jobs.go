package queued

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/toolgate/toolgate/native/queue"
)

// Job is a call of this gateway that is in a queue: it waits for a worker, or one runs it.
type Job struct {
	ID, Queue, Tool string
	Principal       string // of the caller, as the gate encodes it
	Task            bool   // it runs as a task, so that nobody waits on the call
	Repeats         bool   // it may run again after its worker was lost
	Since, Deadline time.Time
}

// sent keeps a job until its end is known. It is the only place where jobs are noted: a task
// whose tool is in a queue is one job.
func (l *Link) sent(j *queue.Job, tool, principal string) (over func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[j.ID] = Job{
		ID: j.ID, Queue: j.Queue, Tool: tool, Principal: principal, Task: j.Priority < queue.MaxPriority, Repeats: j.Repeats, Since: time.Now(), Deadline: j.Deadline,
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.jobs, j.ID)
	}
}

// Count returns how many jobs of this gateway have not ended.
func (l *Link) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.jobs)
}

// Jobs returns the jobs of this gateway that have not ended, the oldest first; of a principal
// alone where it is not empty.
func (l *Link) Jobs(principal string) []Job {
	l.mu.Lock()
	all := slices.Collect(maps.Values(l.jobs))
	l.mu.Unlock()
	all = slices.DeleteFunc(all, func(j Job) bool { return principal != "" && j.Principal != principal })
	slices.SortFunc(all, func(a, b Job) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return all
}
