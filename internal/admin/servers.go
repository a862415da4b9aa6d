package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// AddedServer is a server that was added at run time.
type AddedServer struct {
	Server    string    `json:"server"`
	Offer     string    `json:"offer"`
	Arguments []string  `json:"arguments"`
	State     string    `json:"state"`
	Reason    string    `json:"reason,omitempty"`
	Issuer    string    `json:"issuer"`
	Tenant    string    `json:"tenant"`
	Subject   string    `json:"subject"`
	Promoted  bool      `json:"promoted"`
	CreatedAt time.Time `json:"created_at"`
}

// ErrNoServer tells that there is no server of that name, or that it is already promoted.
var ErrNoServer = errors.New("there is no such server that could be changed")

// Adder is a [Gateway] whose callers can add servers.
type Adder interface {
	AddedServers(ctx context.Context) ([]AddedServer, error)
	// PromoteServer makes a server available to everyone, RemoveServer removes one,
	// whoever added it. They return [ErrNoServer], wrapped.
	PromoteServer(ctx context.Context, server, reason string) error
	RemoveServer(ctx context.Context, server string) error
}

func handleAdder(mux *router, a Adder) {
	done := func(w http.ResponseWriter, v any, err error) {
		switch {
		case err == nil:
			writeJSON(w, http.StatusOK, v)
		case errors.Is(err, ErrNoServer):
			writeJSON(w, http.StatusNotFound, map[string]any{"error": err.Error()})
		default:
			writeJSON(w, http.StatusServiceUnavailable, map[string]any{"error": err.Error()})
		}
	}
	mux.HandleFunc("GET /v1/servers", func(w http.ResponseWriter, r *http.Request) {
		list, err := a.AddedServers(r.Context())
		done(w, list, err)
	})
	mux.HandleFunc("POST /v1/servers/{name}/promote", func(w http.ResponseWriter, r *http.Request) {
		done(w, map[string]any{}, a.PromoteServer(r.Context(), r.PathValue("name"), r.URL.Query().Get("reason")))
	})
	mux.HandleFunc("POST /v1/servers/{name}/remove", func(w http.ResponseWriter, r *http.Request) {
		done(w, map[string]any{}, a.RemoveServer(r.Context(), r.PathValue("name")))
	})
}

// AddedServers returns the servers that were added.
func (c *Client) AddedServers(ctx context.Context) ([]AddedServer, error) {
	var out []AddedServer
	err := c.do(ctx, http.MethodGet, "/v1/servers", &out)
	return out, err
}

// PromoteServer makes an added server available to everyone.
func (c *Client) PromoteServer(ctx context.Context, server, reason string) error {
	return c.do(ctx, http.MethodPost, "/v1/servers/"+url.PathEscape(server)+"/promote?"+url.Values{"reason": {reason}}.Encode(), nil)
}

// RemoveServer removes an added server.
func (c *Client) RemoveServer(ctx context.Context, server string) error {
	return c.do(ctx, http.MethodPost, "/v1/servers/"+url.PathEscape(server)+"/remove", nil)
}
