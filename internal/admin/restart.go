package admin

import (
	"context"
	"net/http"
	"net/url"
)

// Restarter is a [Gateway] whose servers can be started again.
type Restarter interface {
	// RestartServer starts a server again. Calls in flight finish at the old one. Errors
	// are for people.
	RestartServer(server string) error
}

func handleRestarts(mux *router, again Restarter) {
	mux.HandleFunc("POST /v1/servers/{name}/restart", func(w http.ResponseWriter, r *http.Request) {
		writeFound(w, map[string]any{}, again.RestartServer(r.PathValue("name")))
	})
}

// RestartServer starts a server of the running gateway again.
func (c *Client) RestartServer(ctx context.Context, server string) error {
	return c.do(ctx, http.MethodPost, "/v1/servers/"+url.PathEscape(server)+"/restart", nil)
}
