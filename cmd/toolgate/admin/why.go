package admin

import (
	"context"
	"net/http"
	"net/url"
)

// WhyQuestion asks what the gate says of a capability to a caller.
type WhyQuestion struct {
	Name    string // exposed name or URI
	As      string // id or subject of an API key; empty is everyone without authentication
	Capsule string // endpoint of a capsule; empty is the main one
}

// Why is the answer to a [WhyQuestion].
type Why struct {
	Name         string     `json:"name"`
	Kind         string     `json:"kind"`
	Server       string     `json:"server"`
	Original     string     `json:"original_name"`
	CapabilityID string     `json:"capability_id,omitempty"`
	Caller       string     `json:"caller"`
	View         WhyVerdict `json:"view"`
	Call         WhyVerdict `json:"call"`
}

// WhyVerdict is one decision with what each phase said.
type WhyVerdict struct {
	Effect string    `json:"effect"`
	Reason string    `json:"reason,omitempty"`
	Steps  []WhyStep `json:"steps"`
}

// WhyStep is what one phase of the gate said.
type WhyStep struct {
	Phase    string   `json:"phase"`
	Effect   string   `json:"effect"`
	Reason   string   `json:"reason,omitempty"`
	Revision string   `json:"revision,omitempty"`
	Rules    []string `json:"rules,omitempty"`
	Question string   `json:"question,omitempty"`
	Change   string   `json:"change,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// WhoCan is what one known caller may do with a capability.
type WhoCan struct {
	Caller string `json:"caller"`
	View   bool   `json:"view"`
	Call   bool   `json:"call"`
	Reason string `json:"reason,omitempty"` // of the first deny
}

// Explainer is a [Gateway] that explains its decisions. Errors are for people.
type Explainer interface {
	Why(ctx context.Context, q WhyQuestion) (Why, error)
	WhoCan(ctx context.Context, name string) ([]WhoCan, error)
}

// handleExplainer serves what an explainer answers.
func handleExplainer(mux *http.ServeMux, e Explainer) {
	mux.HandleFunc("GET /v1/why", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		why, err := e.Why(r.Context(), WhyQuestion{Name: q.Get("name"), As: q.Get("as"), Capsule: q.Get("capsule")})
		writeFound(w, why, err)
	})
	mux.HandleFunc("GET /v1/who-can", func(w http.ResponseWriter, r *http.Request) {
		who, err := e.WhoCan(r.Context(), r.URL.Query().Get("name"))
		writeFound(w, who, err)
	})
}

// Why asks the gateway to explain a decision.
func (c *Client) Why(ctx context.Context, q WhyQuestion) (Why, error) {
	var out Why
	query := url.Values{"name": {q.Name}, "as": {q.As}, "capsule": {q.Capsule}}
	err := c.do(ctx, http.MethodGet, "/v1/why?"+query.Encode(), &out)
	return out, err
}

// WhoCan asks which of the callers that the gateway knows may use a capability.
func (c *Client) WhoCan(ctx context.Context, name string) ([]WhoCan, error) {
	var out []WhoCan
	err := c.do(ctx, http.MethodGet, "/v1/who-can?"+url.Values{"name": {name}}.Encode(), &out)
	return out, err
}
