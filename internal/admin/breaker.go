package admin

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Breaker is a circuit breaker, described for people.
type Breaker struct {
	Server string `json:"server"`
	// Tool is the server's name of a tool with a breaker of its own; empty for the
	// breaker of the whole server.
	Tool  string `json:"tool,omitempty"`
	State string `json:"state"` // closed, open or half-open
	// Since is when the breaker entered the state.
	Since time.Time `json:"since"`
	// Until is when an open breaker lets a call through at the latest.
	Until *time.Time `json:"until,omitempty"`
	// Failures is how many calls in a row have failed while the breaker is closed, Opens
	// how often it has opened.
	Failures int    `json:"failures"`
	Opens    uint64 `json:"opens"`
	// Why is the latest failure that counted.
	Why string `json:"why,omitempty"`
}

// BreakerKeeper is a [Gateway] with circuit breakers.
type BreakerKeeper interface {
	// Breakers returns all circuit breakers, sorted by server and tool.
	Breakers() []Breaker
	// ResetBreaker closes the breaker of a tool, or all breakers of a server if tool is
	// empty. Errors are for people.
	ResetBreaker(server, tool string) error
}

// handleBreakers serves the circuit breakers.
func handleBreakers(mux *router, k BreakerKeeper) {
	mux.HandleFunc("GET /v1/breakers", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, breakersAnswer{k.Breakers()})
	})
	mux.HandleFunc("POST /v1/breakers/reset", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		err := k.ResetBreaker(q.Get("server"), q.Get("tool"))
		writeFound(w, breakersAnswer{k.Breakers()}, err)
	})
}

// Breakers returns the circuit breakers.
func (c *Client) Breakers(ctx context.Context) ([]Breaker, error) {
	return c.breakers(ctx, http.MethodGet, "/v1/breakers")
}

// ResetBreaker closes breakers and returns the resulting state of all.
func (c *Client) ResetBreaker(ctx context.Context, server, tool string) ([]Breaker, error) {
	return c.breakers(ctx, http.MethodPost, "/v1/breakers/reset?"+url.Values{"server": {server}, "tool": {tool}}.Encode())
}

func (c *Client) breakers(ctx context.Context, method, path string) ([]Breaker, error) {
	var out struct{ Breakers []Breaker }
	err := c.do(ctx, method, path, &out)
	return out.Breakers, err
}
