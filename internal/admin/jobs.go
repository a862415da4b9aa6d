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

// Jobs is a [Gateway] with queues.
type Jobs interface {
	// Jobs returns the jobs of this gateway that have not ended, the oldest first. principal is
	// one caller, as the gate encodes it; empty for all.
	Jobs(principal string) []Job
}

func handleJobs(mux *router, of Jobs) {
	mux.HandleFunc("GET /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, of.Jobs(r.URL.Query().Get("principal")))
	})
}

// Jobs returns the jobs of the running gateway that have not ended.
func (c *Client) Jobs(ctx context.Context, principal string) ([]Job, error) {
	var out []Job
	err := c.do(ctx, http.MethodGet, "/v1/jobs?"+url.Values{"principal": {principal}}.Encode(), &out)
	return out, err
}
