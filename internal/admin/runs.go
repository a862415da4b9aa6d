package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// Run is a run of an agent.
type Run struct {
	ID        string    `json:"id"`
	Agent     string    `json:"agent"`
	Caller    string    `json:"caller"`
	State     string    `json:"state"`
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"`
}

// RunDetails are a run with what was asked and its steps. Secrets in texts are redacted,
// and long ones cut.
type RunDetails struct {
	Run
	Task   string    `json:"task"`
	Reason string    `json:"reason,omitempty"` // why it is not completed
	Text   string    `json:"text,omitempty"`   // the answer
	Input  int64     `json:"input_tokens"`
	Output int64     `json:"output_tokens"`
	Cost   int64     `json:"cost"`
	Steps  []RunStep `json:"steps"`
}

// RunStep is one step of a run.
type RunStep struct {
	Seq  int    `json:"seq"`
	Turn int    `json:"turn"`
	Kind string `json:"kind"` // inference, call or function
	// Name is that of the tool or of the model. A function has the name that the caller gave it:
	// it is as much the caller's word as Asked is.
	Name    string     `json:"name"`
	State   string     `json:"state"`
	CallID  string     `json:"call_id,omitempty"` // in the audit log
	Input   int64      `json:"input_tokens,omitempty"`
	Output  int64      `json:"output_tokens,omitempty"`
	Cost    int64      `json:"cost,omitempty"`
	BegunAt time.Time  `json:"begun_at"`
	EndedAt *time.Time `json:"ended_at,omitempty"`
	Asked   string     `json:"asked,omitempty"`
	Answer  string     `json:"answer,omitempty"`
}

// RunQuery selects runs; an empty field selects all.
type RunQuery struct {
	State string
	// Principal is one caller, as the gate encodes it. What agents run for it is not its own.
	Principal string
	// Before is the last run of the page before; its id and when it was made count.
	Before Run
	// Limit is the number of runs; 0 is [MaxRuns].
	Limit int
}

// MaxRuns is the maximum number of runs in an answer.
const MaxRuns = 500

// ErrNoRun means that there is no run of an id, or none that could end.
var ErrNoRun = errors.New("there is no such run")

// Runs is a [Gateway] with agents.
type Runs interface {
	// Runs returns the latest runs that match a query.
	Runs(ctx context.Context, q RunQuery) ([]Run, error)
	// Run returns one run, or [ErrNoRun], wrapped. Where principal is not empty, a run of
	// anybody else is no run, and nothing of it is read.
	Run(ctx context.Context, id, principal string) (RunDetails, error)
	// CancelRun cancels a run that has not ended, or returns [ErrNoRun], wrapped.
	CancelRun(ctx context.Context, id string) error
}

// handleRuns serves the runs of agents.
func handleRuns(mux *router, runs Runs) {
	answer := func(w http.ResponseWriter, v any, err error) {
		switch {
		case err == nil:
			writeJSON(w, http.StatusOK, v)
		case errors.Is(err, ErrNoRun):
			writeJSON(w, http.StatusNotFound, map[string]any{"error": err.Error()})
		default:
			writeJSON(w, http.StatusServiceUnavailable, map[string]any{"error": err.Error()})
		}
	}
	mux.HandleFunc("GET /v1/runs", func(w http.ResponseWriter, r *http.Request) {
		v := r.URL.Query()
		q := RunQuery{State: v.Get("state"), Principal: v.Get("principal")}
		var problem string
		if q.Before.CreatedAt, q.Before.ID, q.Limit, problem = parsePage(v, "before", MaxRuns); problem != "" {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": problem})
			return
		}
		list, err := runs.Runs(r.Context(), q)
		answer(w, list, err)
	})
	mux.HandleFunc("GET /v1/runs/{id}", func(w http.ResponseWriter, r *http.Request) {
		run, err := runs.Run(r.Context(), r.PathValue("id"), r.URL.Query().Get("principal"))
		answer(w, run, err)
	})
	mux.HandleFunc("POST /v1/runs/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{}, runs.CancelRun(r.Context(), r.PathValue("id")))
	})
}

// Runs returns the latest runs of agents.
func (c *Client) Runs(ctx context.Context, q RunQuery) ([]Run, error) {
	var out []Run
	v := url.Values{}
	for name, value := range map[string]string{"state": q.State, "principal": q.Principal} {
		if value != "" {
			v.Set(name, value)
		}
	}
	setPage(v, "before", q.Before.CreatedAt, q.Before.ID, q.Limit)
	err := c.do(ctx, http.MethodGet, "/v1/runs?"+v.Encode(), &out)
	return out, err
}

// Run returns one run with its steps; of a principal alone where it is not empty.
func (c *Client) Run(ctx context.Context, id, principal string) (RunDetails, error) {
	var out RunDetails
	path := "/v1/runs/" + url.PathEscape(id)
	if principal != "" {
		path += "?" + url.Values{"principal": {principal}}.Encode()
	}
	err := c.do(ctx, http.MethodGet, path, &out)
	return out, err
}

// CancelRun cancels a run.
func (c *Client) CancelRun(ctx context.Context, id string) error {
	var out struct{}
	return c.do(ctx, http.MethodPost, "/v1/runs/"+url.PathEscape(id)+"/cancel", &out)
}
