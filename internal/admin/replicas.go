package admin

import (
	"context"
	"net/http"
	"time"
)

// Replica is one of the gateways that share a database.
type Replica struct {
	ID       string    `json:"id"`
	Address  string    `json:"address"` // host:port of its internal listener
	Version  string    `json:"version"` // of the program
	Draining bool      `json:"draining"`
	Sessions int       `json:"sessions"` // open legacy sessions, a few seconds ago
	Calls    int       `json:"calls"`    // in flight, a few seconds ago
	Runs     int       `json:"runs"`     // of agents, that it works on, a few seconds ago
	Jobs     int       `json:"jobs"`     // in queues, whose end it waits for, a few seconds ago
	Started  time.Time `json:"started"`
	Self     bool      `json:"self"` // the one that was asked
}

// Replicas is a [Gateway] that may be one of several.
type Replicas interface {
	// Replicas returns the gateways that are there, by id; none for a gateway alone.
	Replicas() []Replica
}

func handleReplicas(mux *router, of Replicas) {
	mux.HandleFunc("GET /v1/replicas", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, replicasAnswer{append([]Replica{}, of.Replicas()...)})
	})
}

// Replicas returns the gateways that share the database of the running one; none where it
// is alone.
func (c *Client) Replicas(ctx context.Context) ([]Replica, error) {
	var out struct{ Replicas []Replica }
	err := c.do(ctx, http.MethodGet, "/v1/replicas", &out)
	return out.Replicas, err
}
