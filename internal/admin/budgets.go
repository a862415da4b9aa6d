package admin

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// BudgetUse is one owner's usage of one budget.
type BudgetUse struct {
	Budget string `json:"budget"` // "plan" for plans and the budgets of agents
	Per    string `json:"per"`
	// Owner is who is counted: issuer, tenant and subject; tenant and persona; or the
	// tenant, the server, the server and the tool, the class, or the agent.
	Owner  []string `json:"owner"`
	Key    string   `json:"key"` // the owner as one text
	Unit   string   `json:"unit"`
	Window string   `json:"window"`
	Used   int64    `json:"used"`
	// Limit is nil if there is no limit, or none is known.
	Limit *int64 `json:"limit,omitempty"`
	// Since is the beginning of the window.
	Since time.Time `json:"since"`
	// ResetAt is when the usage falls.
	ResetAt time.Time `json:"reset_at"`
	// EmptyAt is when nothing will be left at the pace of the window so far; nil if the
	// budget lasts.
	EmptyAt *time.Time `json:"empty_at,omitempty"`
}

// MaxBudgetUses is the maximum number of results.
const MaxBudgetUses = 1000

// BudgetQuery selects usage; empty fields select everything.
type BudgetQuery struct {
	Budget, Key string
}

// Budgets is a [Gateway] with budgets.
type Budgets interface {
	// BudgetUse returns the present usage, at most [MaxBudgetUses] results.
	BudgetUse(ctx context.Context, q BudgetQuery) ([]BudgetUse, error)
	// RebuildBudgets makes a store that has lost its counters usable again. It returns a
	// sentence about what it did.
	RebuildBudgets(ctx context.Context) (string, error)
}

// handleBudgets serves the budgets.
func handleBudgets(mux *router, b Budgets) {
	answer := func(w http.ResponseWriter, v any, err error) {
		if err != nil {
			writeJSON(w, http.StatusServiceUnavailable, map[string]any{"error": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, v)
	}
	mux.HandleFunc("GET /v1/budgets", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		uses, err := b.BudgetUse(r.Context(), BudgetQuery{Budget: q.Get("budget"), Key: q.Get("key")})
		answer(w, uses, err)
	})
	mux.HandleFunc("POST /v1/budgets/rebuild", func(w http.ResponseWriter, r *http.Request) {
		did, err := b.RebuildBudgets(r.Context())
		answer(w, rebuiltAnswer{did}, err)
	})
}

// BudgetUse returns the present usage.
func (c *Client) BudgetUse(ctx context.Context, q BudgetQuery) ([]BudgetUse, error) {
	var out []BudgetUse
	err := c.do(ctx, http.MethodGet, "/v1/budgets?"+url.Values{"budget": {q.Budget}, "key": {q.Key}}.Encode(), &out)
	return out, err
}

// RebuildBudgets makes a store that has lost its counters usable again.
func (c *Client) RebuildBudgets(ctx context.Context) (string, error) {
	var out struct {
		Did string `json:"did"`
	}
	err := c.do(ctx, http.MethodPost, "/v1/budgets/rebuild", &out)
	return out.Did, err
}
