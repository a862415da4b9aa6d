package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/toolgate/toolgate/internal/mcp"
)

// WhyQuestion asks whether the gate lets a caller see and call a capability.
type WhyQuestion struct {
	Name string // exposed name or URI
	// Args are the arguments of the call, a JSON object. With nil the explanation covers
	// what holds for any arguments.
	Args    json.RawMessage
	As      string // id or subject of an API key; empty is everyone without authentication
	Assumed *Caller
	Capsule string // endpoint of a capsule; empty is the main one
}

// Caller is an assumed caller: nobody has authenticated, and the fields are the claims
// that a token would have.
type Caller struct {
	Issuer  string // may be empty if there is only one issuer
	Tenant  string
	Subject string
	Persona string
	Groups  []string
	Scopes  []string
	Plan    string
}

// values adds the caller to a query. A nil caller adds nothing.
func (c *Caller) values(v url.Values) url.Values {
	if c != nil {
		v.Set("assume", "true")
		v.Set("issuer", c.Issuer)
		v.Set("tenant", c.Tenant)
		v.Set("subject", c.Subject)
		v.Set("persona", c.Persona)
		v["group"], v["scope"] = c.Groups, c.Scopes
		v.Set("plan", c.Plan)
	}
	return v
}

// assumed is the inverse of values.
func assumed(v url.Values) *Caller {
	if v.Get("assume") != "true" {
		return nil
	}
	return &Caller{
		Issuer: v.Get("issuer"), Tenant: v.Get("tenant"), Subject: v.Get("subject"), Persona: v.Get("persona"),
		Groups: v["group"], Scopes: v["scope"], Plan: v.Get("plan"),
	}
}

// Why is the answer to a [WhyQuestion].
type Why struct {
	Name         string     `json:"name"`
	Kind         string     `json:"kind"`
	Server       string     `json:"server"`
	Original     string     `json:"original_name"`
	CapabilityID string     `json:"capability_id,omitempty"`
	Caller       string     `json:"caller"`
	Assumed      bool       `json:"assumed,omitempty"` // the caller is assumed
	View         WhyVerdict `json:"view"`
	Call         WhyVerdict `json:"call"`
}

// WhyVerdict is one decision with the verdict of each step. Its effect is allow, deny, or
// ask if people are asked first.
type WhyVerdict struct {
	Effect string    `json:"effect"`
	Reason string    `json:"reason,omitempty"`
	Steps  []WhyStep `json:"steps"`
}

// WhyStep is the verdict of one phase of the gate, or of one of the steps after it.
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
	Caller  string `json:"caller"`
	Assumed bool   `json:"assumed,omitempty"` // the caller is assumed
	View    bool   `json:"view"`
	Call    bool   `json:"call"`
	Asks    bool   `json:"asks,omitempty"`   // people are asked before a call
	Reason  string `json:"reason,omitempty"` // of the first deny, or why people are asked
}

// Explainer is a [Gateway] that explains its decisions. Errors are for people.
type Explainer interface {
	Why(ctx context.Context, q WhyQuestion) (Why, error)
	// WhoCan covers the callers that the gateway knows by name, and an assumed one if it
	// is not nil.
	WhoCan(ctx context.Context, name string, besides *Caller) ([]WhoCan, error)
}

// handleExplainer serves the answers of an Explainer.
func handleExplainer(mux *router, e Explainer) {
	mux.HandleFunc("GET /v1/why", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		ask := WhyQuestion{Name: q.Get("name"), As: q.Get("as"), Assumed: assumed(q), Capsule: q.Get("capsule")}
		if args := []byte(q.Get("args")); len(args) > 0 {
			if err := mcp.Validate(args, mcp.Limits{}); err != nil || !mcp.IsObject(args) {
				writeJSON(w, http.StatusBadRequest, map[string]any{"error": "args must be a JSON object"})
				return
			}
			ask.Args = args
		}
		why, err := e.Why(r.Context(), ask)
		writeFound(w, why, err)
	})
	mux.HandleFunc("GET /v1/who-can", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		who, err := e.WhoCan(r.Context(), q.Get("name"), assumed(q))
		writeFound(w, who, err)
	})
}

// Why asks the gateway to explain a decision.
func (c *Client) Why(ctx context.Context, q WhyQuestion) (Why, error) {
	var out Why
	query := q.Assumed.values(url.Values{"name": {q.Name}, "as": {q.As}, "capsule": {q.Capsule}, "args": {string(q.Args)}})
	err := c.do(ctx, http.MethodGet, "/v1/why?"+query.Encode(), &out)
	return out, err
}

// WhoCan asks which known callers may use a capability, and whether an assumed one may.
func (c *Client) WhoCan(ctx context.Context, name string, besides *Caller) ([]WhoCan, error) {
	var out []WhoCan
	query := besides.values(url.Values{"name": {name}})
	err := c.do(ctx, http.MethodGet, "/v1/who-can?"+query.Encode(), &out)
	return out, err
}
