package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// DeclaredTool is a tool that is declared in the store.
type DeclaredTool struct {
	Name      string    `json:"name"`
	Type      string    `json:"type"`
	Target    string    `json:"target"` // what it reaches or runs
	Problem   string    `json:"problem,omitempty"`
	Actor     string    `json:"actor"`
	Reason    string    `json:"reason,omitempty"`
	ChangedAt time.Time `json:"changed_at"`
}

// Declaration is a document of tools to declare in the store.
type Declaration struct {
	File   string `json:"file"` // its name, for messages
	Data   []byte `json:"data"`
	Reason string `json:"reason,omitempty"`
}

// Declared is the result of a declaration.
type Declared struct {
	Changes []string `json:"changes"`
}

// ErrNoTool tells that no tool of that name is declared or registered in the store.
var ErrNoTool = errors.New("no such tool is in the store")

// Declarer is a [Gateway] whose store holds declared tools. Errors are for people.
type Declarer interface {
	DeclaredTools(ctx context.Context) ([]DeclaredTool, error)
	// DeclareTools stores all tools of a document, or none.
	DeclareTools(ctx context.Context, d Declaration) (Declared, error)
	// UndeclareTool returns [ErrNoTool], wrapped.
	UndeclareTool(ctx context.Context, name, reason string) error
}

// writeTools writes the answer to a request about tools of the store.
func writeTools(w http.ResponseWriter, v any, err error) {
	switch {
	case err == nil:
		writeJSON(w, http.StatusOK, v)
	case errors.Is(err, ErrNoTool):
		writeJSON(w, http.StatusNotFound, map[string]any{"error": err.Error()})
	default:
		writeJSON(w, http.StatusUnprocessableEntity, map[string]any{"error": err.Error()})
	}
}

func handleDeclarer(mux *router, d Declarer) {
	mux.HandleFunc("GET /v1/declared", func(w http.ResponseWriter, r *http.Request) {
		list, err := d.DeclaredTools(r.Context())
		writeTools(w, list, err)
	})
	mux.HandleFunc("POST /v1/declared", func(w http.ResponseWriter, r *http.Request) {
		var in Declaration
		if err := readJSON(r, &in); err != nil {
			writeTools(w, nil, err)
			return
		}
		did, err := d.DeclareTools(r.Context(), in)
		writeTools(w, did, err)
	})
	mux.HandleFunc("POST /v1/declared/{name}/remove", func(w http.ResponseWriter, r *http.Request) {
		writeTools(w, map[string]any{}, d.UndeclareTool(r.Context(), r.PathValue("name"), r.URL.Query().Get("reason")))
	})
}

// DeclaredTools returns the tools that are declared in the store.
func (c *Client) DeclaredTools(ctx context.Context) ([]DeclaredTool, error) {
	var out []DeclaredTool
	err := c.do(ctx, http.MethodGet, "/v1/declared", &out)
	return out, err
}

// DeclareTools declares the tools of a document in the store.
func (c *Client) DeclareTools(ctx context.Context, d Declaration) (Declared, error) {
	var out Declared
	err := c.post(ctx, "/v1/declared", d, &out)
	return out, err
}

// UndeclareTool removes a tool from the store.
func (c *Client) UndeclareTool(ctx context.Context, name, reason string) error {
	return c.do(ctx, http.MethodPost, "/v1/declared/"+url.PathEscape(name)+"/remove?"+url.Values{"reason": {reason}}.Encode(), nil)
}
