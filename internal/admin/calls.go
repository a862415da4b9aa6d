package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Call is one closed call of a tool.
type Call struct {
	// Row orders calls that ended at the same time; 0 for a call that is not in the log of
	// executions yet.
	Row    int64     `json:"row,omitempty"`
	At     time.Time `json:"at"`
	ID     string    `json:"call_id"`
	Server string    `json:"server"`
	Tool   string    `json:"tool"`
	Tenant string    `json:"tenant"`
	// Persona is the role in which the caller acted.
	Persona string `json:"persona,omitempty"`
	// Error is the class of a failure or refusal; empty for a success.
	Error      string `json:"error,omitempty"`
	DurationUS int64  `json:"duration_us"`
	UpstreamUS int64  `json:"upstream_us"` // of that, spent in the server
	BytesIn    int64  `json:"bytes_in"`
	BytesOut   int64  `json:"bytes_out"`
}

// CallQuery selects calls; an empty field selects all.
type CallQuery struct {
	Server, Tool, Tenant string
	// Error is a class of failures. "any" is every failure, "none" every success.
	Error string
	Since time.Time
	// Principal is one caller, as the gate encodes it.
	Principal string
	// Before is the last call of the page before; its time and row count.
	Before Call
	// Limit is the number of calls; 0 is 50.
	Limit int
}

const (
	callsLimit = 50
	// MaxCalls is the maximum number of calls in an answer.
	MaxCalls = 500
)

// CallBucket are the calls of one stretch of time.
type CallBucket struct {
	At       time.Time `json:"at"` // its beginning
	Calls    int64     `json:"calls"`
	Failures int64     `json:"failures"` // of them, refusals included
}

// LiveCalls are calls that have just ended.
type LiveCalls struct {
	// Last is the number of the latest call since the start. The next question names it.
	Last uint64 `json:"last"`
	// Missed is how many calls since the named one are not in Calls.
	Missed uint64 `json:"missed"`
	Calls  []Call `json:"calls"` // the latest last
}

// MaxLiveCalls is the maximum number of calls that wait for somebody who watches.
const MaxLiveCalls = 256

// CallReader is a [Gateway] whose calls can be searched and watched.
type CallReader interface {
	// Calls returns the calls that match a query, the latest first.
	Calls(ctx context.Context, q CallQuery) ([]Call, error)
	// CallsOver returns the number of calls since a time in steps of the same length.
	// Steps without calls are left out.
	CallsOver(ctx context.Context, since time.Time, step time.Duration) ([]CallBucket, error)
	// LiveCalls returns what has ended since the call of a number. Calls are kept for it
	// only while somebody asks, and for some seconds after.
	LiveCalls(after uint64) LiveCalls
}

// minStep is the shortest step of a timeline.
const minStep = time.Second

func handleCalls(mux *router, c CallReader) {
	mux.HandleFunc("GET /v1/calls", func(w http.ResponseWriter, r *http.Request) {
		q, problem := parseCalls(r.URL.Query())
		if problem != "" {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": problem})
			return
		}
		calls, err := c.Calls(r.Context(), q)
		answerCalls(w, calls, err)
	})
	mux.HandleFunc("GET /v1/calls/over", func(w http.ResponseWriter, r *http.Request) {
		since, err := time.Parse(time.RFC3339, r.URL.Query().Get("since"))
		step, stepErr := time.ParseDuration(r.URL.Query().Get("step"))
		if err != nil || stepErr != nil || step < minStep {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": "since must be a time such as 2026-11-21T10:00:00Z, and step 1s or more"})
			return
		}
		over, err := c.CallsOver(r.Context(), since, step)
		answerCalls(w, over, err)
	})
	mux.HandleFunc("GET /v1/calls/live", func(w http.ResponseWriter, r *http.Request) {
		after, err := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
		if err != nil && r.URL.Query().Has("after") {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": "after must be the number of a call"})
			return
		}
		writeJSON(w, http.StatusOK, c.LiveCalls(after))
	})
}

func answerCalls(w http.ResponseWriter, v any, err error) {
	if err != nil {
		writeJSON(w, http.StatusServiceUnavailable, map[string]any{"error": err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, v)
}

// parseCalls reads a query; problem says what is wrong with it.
func parseCalls(v url.Values) (q CallQuery, problem string) {
	q = CallQuery{Server: v.Get("server"), Tool: v.Get("tool"), Tenant: v.Get("tenant"), Error: v.Get("error"), Principal: v.Get("principal"), Limit: callsLimit}
	var err error
	if text := v.Get("since"); text != "" {
		if q.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return q, "since must be a time such as 2026-11-21T10:00:00Z"
		}
	}
	if text := v.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > MaxCalls {
			return q, "limit must be a number from 1 to " + strconv.Itoa(MaxCalls)
		}
	}
	if text := v.Get("before"); text != "" {
		if q.Before.At, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return q, "before must be the time of a call"
		}
		if q.Before.Row, err = strconv.ParseInt(v.Get("row"), 10, 64); err != nil {
			return q, "row must be that of the call whose time is before"
		}
	}
	return q, ""
}

// Values are the members of a query in a URL; [CallReader] is asked with them over HTTP.
func (q *CallQuery) Values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"server": q.Server, "tool": q.Tool, "tenant": q.Tenant, "error": q.Error, "principal": q.Principal} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339))
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Before.Row > 0 {
		v.Set("before", q.Before.At.UTC().Format(time.RFC3339Nano))
		v.Set("row", strconv.FormatInt(q.Before.Row, 10))
	}
	return v
}

// Calls returns the calls that match a query, the latest first.
func (c *Client) Calls(ctx context.Context, q CallQuery) ([]Call, error) {
	var out []Call
	err := c.do(ctx, http.MethodGet, "/v1/calls?"+q.Values().Encode(), &out)
	return out, err
}

// CallsOver returns the number of calls since a time, in steps.
func (c *Client) CallsOver(ctx context.Context, since time.Time, step time.Duration) ([]CallBucket, error) {
	var out []CallBucket
	v := url.Values{"since": {since.UTC().Format(time.RFC3339)}, "step": {step.String()}}
	err := c.do(ctx, http.MethodGet, "/v1/calls/over?"+v.Encode(), &out)
	return out, err
}

// LiveCalls returns the calls that have ended since the one of a number.
func (c *Client) LiveCalls(ctx context.Context, after uint64) (LiveCalls, error) {
	var out LiveCalls
	err := c.do(ctx, http.MethodGet, "/v1/calls/live?after="+strconv.FormatUint(after, 10), &out)
	return out, err
}
