package admin

import (
	"context"
	"net/http"
)

// TrainQuestion asks for models of the searches that callers have made.
type TrainQuestion struct {
	Tenant  string `json:"tenant,omitempty"` // empty for all
	Callers int    `json:"callers"`          // at least so many must have called a tool
}

// Trained says what the model of a tenant was made of.
type Trained struct {
	Tenant   string  `json:"tenant"`
	Recorded int     `json:"recorded"`         // pairs of a search and a call that are kept
	Pairs    int     `json:"pairs"`            // of these, those that count
	Callers  int     `json:"callers"`          // who made them
	Tools    int     `json:"tools"`            // that the model knows
	Left     int     `json:"left"`             // tools that too few callers have called, or too seldom
	Shadow   *Shadow `json:"shadow,omitempty"` // of earlier models; nil where none was compared
}

// Shadow compares the places that called tools had in answers with those that a model
// would have given them.
type Shadow struct {
	Pairs   int     `json:"pairs"`
	Served  float64 `json:"mrr_served"`  // mean of 1 divided by the place
	Learned float64 `json:"mrr_learned"` // the same with the model
	Better  int     `json:"better"`      // pairs that the model ranks higher
	Worse   int     `json:"worse"`
}

// Forgotten says what is no longer kept.
type Forgotten struct {
	Pairs int `json:"pairs"`
}

// Learner is a [Gateway] that learns from searches. Errors are for people.
type Learner interface {
	Train(ctx context.Context, q TrainQuestion) ([]Trained, error)
	// Forget removes what was kept and learned of the searches of a tenant.
	Forget(ctx context.Context, tenant string) (Forgotten, error)
}

func handleLearner(mux *router, l Learner) {
	handle := func(path string, did func(context.Context, TrainQuestion) (any, error)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			var q TrainQuestion
			if err := readJSON(r, &q); err != nil {
				writeJSON(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
				return
			}
			v, err := did(r.Context(), q)
			writeFound(w, v, err)
		})
	}
	handle("/v1/find/train", func(ctx context.Context, q TrainQuestion) (any, error) { return l.Train(ctx, q) })
	handle("/v1/find/forget", func(ctx context.Context, q TrainQuestion) (any, error) { return l.Forget(ctx, q.Tenant) })
}

// Train asks the gateway to learn from the searches that it has kept.
func (c *Client) Train(ctx context.Context, q TrainQuestion) ([]Trained, error) {
	var out []Trained
	err := c.post(ctx, "/v1/find/train", q, &out)
	return out, err
}

// Forget asks the gateway to forget the searches of a tenant.
func (c *Client) Forget(ctx context.Context, tenant string) (Forgotten, error) {
	var out Forgotten
	err := c.post(ctx, "/v1/find/forget", TrainQuestion{Tenant: tenant}, &out)
	return out, err
}
