package admin

import (
	"context"
	"encoding/json"
	"net/http"
)

// Capability is a tool, prompt, resource or template that a server of the gateway offers.
type Capability struct {
	Kind         string `json:"kind"`
	Name         string `json:"name"`            // the name that clients know
	Unsuffixed   string `json:"plain,omitempty"` // see gate.Names
	Server       string `json:"server"`
	Original     string `json:"original_name"`
	CapabilityID string `json:"capability_id,omitempty"`
	// Schema is the input schema of a tool as its server listed it.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// CatalogLister is a [Gateway] that lists everything that it exposes, whoever may see it.
type CatalogLister interface {
	Capabilities(ctx context.Context) ([]Capability, error)
}

// handleCapabilities serves the catalog.
func handleCapabilities(mux *router, l CatalogLister) {
	mux.HandleFunc("GET /v1/capabilities", func(w http.ResponseWriter, r *http.Request) {
		all, err := l.Capabilities(r.Context())
		if err != nil {
			writeJSON(w, http.StatusNotFound, map[string]any{"error": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, all)
	})
}

// Capabilities returns everything that the gateway exposes.
func (c *Client) Capabilities(ctx context.Context) ([]Capability, error) {
	var out []Capability
	err := c.do(ctx, http.MethodGet, "/v1/capabilities", &out)
	return out, err
}
