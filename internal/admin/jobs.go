package admin

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Job is a call of this gateway that is in a queue: it waits for a worker, or one runs it.
type Job struct {
	ID       string    `json:"id"`
	Queue    string    `json:"queue"`
	Tool     string    `json:"tool"` // as its server names it
	Caller   string    `json:"caller"`
	Task     bool      `json:"task"`    // nobody waits on the call
	Repeats  bool      `json:"repeats"` // it may run again after its worker was lost
	Since    time.Time `json:"since"`
	Deadline time.Time `json:"deadline"`
}

// JobQuery selects jobs; an empty field selects all.
type JobQuery struct {
	// Principal is one caller, as the gate encodes it.
	Principal string
	// After is the last job of the page before; its id and when it was sent count.
	After Job
	// Limit is the number of jobs; 0 is [MaxJobs].
	Limit int
}

// MaxJobs is the maximum number of jobs in an answer.
const MaxJobs = 500

// Jobs is a [Gateway] with queues.
type Jobs interface {
	// Jobs returns jobs of this gateway that have not ended, the oldest first.
	Jobs(q JobQuery) []Job
}

func handleJobs(mux *router, of Jobs) {
	mux.HandleFunc("GET /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		v := r.URL.Query()
		q := JobQuery{Principal: v.Get("principal")}
		var problem string
		if q.After.Since, q.After.ID, q.Limit, problem = parsePage(v, "after", MaxJobs); problem != "" {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": problem})
			return
		}
		writeJSON(w, http.StatusOK, of.Jobs(q))
	})
}

// Jobs returns jobs of the running gateway that have not ended, the oldest first.
func (c *Client) Jobs(ctx context.Context, q JobQuery) ([]Job, error) {
	var out []Job
	v := url.Values{}
	if q.Principal != "" {
		v.Set("principal", q.Principal)
	}
	setPage(v, "after", q.After.Since, q.After.ID, q.Limit)
	err := c.do(ctx, http.MethodGet, "/v1/jobs?"+v.Encode(), &out)
	return out, err
}
