package admin

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Mode is the operating mode of a gateway.
type Mode struct {
	Mode string `json:"mode"`
	// Actor, Reason and Since describe who set the mode; they are empty if nobody did.
	Actor  string     `json:"actor,omitempty"`
	Reason string     `json:"reason,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
}

// ModeKeeper is a [Gateway] whose operating mode can be set. Errors are for
// people.
type ModeKeeper interface {
	Mode(ctx context.Context) (Mode, error)
	// SetMode returns once the mode is stored and in force in this gateway.
	SetMode(ctx context.Context, mode, reason string) (Mode, error)
}

// handleMode serves the operating mode.
func handleMode(mux *router, k ModeKeeper) {
	answer := func(w http.ResponseWriter, m Mode, err error) {
		if err != nil {
			writeJSON(w, http.StatusNotFound, map[string]any{"error": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, m)
	}
	mux.HandleFunc("GET /v1/mode", func(w http.ResponseWriter, r *http.Request) {
		m, err := k.Mode(r.Context())
		answer(w, m, err)
	})
	mux.HandleFunc("POST /v1/mode", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		m, err := k.SetMode(r.Context(), q.Get("mode"), q.Get("reason"))
		answer(w, m, err)
	})
}

// Mode returns the operating mode.
func (c *Client) Mode(ctx context.Context) (Mode, error) {
	var out Mode
	err := c.do(ctx, http.MethodGet, "/v1/mode", &out)
	return out, err
}

// SetMode sets the operating mode.
func (c *Client) SetMode(ctx context.Context, mode, reason string) (Mode, error) {
	var out Mode
	err := c.do(ctx, http.MethodPost, "/v1/mode?"+url.Values{"mode": {mode}, "reason": {reason}}.Encode(), &out)
	return out, err
}
