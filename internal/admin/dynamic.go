package admin

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// DynamicTool is a tool that a caller has registered from a template.
type DynamicTool struct {
	Name        string    `json:"name"`
	Template    string    `json:"template"`
	Description string    `json:"description,omitempty"`
	Problem     string    `json:"problem,omitempty"` // why it is not served
	Issuer      string    `json:"issuer"`
	Tenant      string    `json:"tenant"`
	Subject     string    `json:"subject"`
	CreatedAt   time.Time `json:"created_at"`
}

// Registrar is a [Gateway] whose callers can register tools.
type Registrar interface {
	DynamicTools(ctx context.Context) ([]DynamicTool, error)
	// RemoveDynamicTool removes a tool, whoever registered it. It returns [ErrNoTool],
	// wrapped.
	RemoveDynamicTool(ctx context.Context, name, reason string) error
}

func handleRegistrar(mux *router, g Registrar) {
	mux.HandleFunc("GET /v1/dynamic", func(w http.ResponseWriter, r *http.Request) {
		list, err := g.DynamicTools(r.Context())
		writeTools(w, list, err)
	})
	mux.HandleFunc("POST /v1/dynamic/{name}/remove", func(w http.ResponseWriter, r *http.Request) {
		writeTools(w, map[string]any{}, g.RemoveDynamicTool(r.Context(), r.PathValue("name"), r.URL.Query().Get("reason")))
	})
}

// DynamicTools returns the tools that callers have registered.
func (c *Client) DynamicTools(ctx context.Context) ([]DynamicTool, error) {
	var out []DynamicTool
	err := c.do(ctx, http.MethodGet, "/v1/dynamic", &out)
	return out, err
}

// RemoveDynamicTool removes a tool, whoever registered it.
func (c *Client) RemoveDynamicTool(ctx context.Context, name, reason string) error {
	return c.do(ctx, http.MethodPost, "/v1/dynamic/"+url.PathEscape(name)+"/remove?"+url.Values{"reason": {reason}}.Encode(), nil)
}
