package queued

import (
	"cmp"
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
	// Without what only this process knows of the time: whoever reads a page names it again.
	l.jobs[j.ID] = Job{
		ID: j.ID, Queue: j.Queue, Tool: tool, Principal: principal, Task: j.Priority < queue.MaxPriority, Repeats: j.Repeats, Since: time.Now().Round(0), Deadline: j.Deadline,
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

// Jobs returns jobs of this gateway that have not ended, the oldest first: at most limit that
// come after the one of a time and an id; of a principal alone where it is not empty.
func (l *Link) Jobs(principal string, after time.Time, id string, limit int) []Job {
	last := Job{Since: after, ID: id}
	order := func(a, b Job) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) }
	l.mu.Lock()
	all := make([]Job, 0, len(l.jobs))
	for _, j := range l.jobs {
		if (principal == "" || j.Principal == principal) && order(j, last) > 0 {
			all = append(all, j)
		}
	}
	l.mu.Unlock()
	slices.SortFunc(all, order)
	return all[:min(len(all), limit)]
}
