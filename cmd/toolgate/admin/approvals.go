package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/toolgate/toolgate/gate/approval"
)

// Approvals is a [Gateway] that keeps questions to people about calls.
type Approvals interface {
	// Approvals returns the last questions in a state, all of them for an empty one.
	Approvals(ctx context.Context, state string) ([]approval.Item, error)
	// Approval returns one, or [approval.ErrUnknown], wrapped.
	Approval(ctx context.Context, id string) (approval.Item, error)
	// Decide answers one. key is the API key of who answers, empty for whoever
	// holds the admin token alone.
	Decide(ctx context.Context, id string, grant bool, reason, key string) (approval.Item, error)
}

func handleApprovals(mux *http.ServeMux, a Approvals) {
	answer := func(w http.ResponseWriter, v any, err error) {
		status := http.StatusOK
		switch {
		case err == nil:
			writeJSON(w, status, v)
			return
		case errors.Is(err, approval.ErrUnknown):
			status = http.StatusNotFound
		case errors.Is(err, approval.ErrDecided):
			status = http.StatusConflict
		case errors.Is(err, approval.ErrNotYours):
			status = http.StatusForbidden
		default:
			status = http.StatusServiceUnavailable
		}
		writeJSON(w, status, map[string]any{"error": err.Error()})
	}
	mux.HandleFunc("GET /v1/approvals", func(w http.ResponseWriter, r *http.Request) {
		items, err := a.Approvals(r.Context(), r.URL.Query().Get("state"))
		answer(w, items, err)
	})
	mux.HandleFunc("GET /v1/approvals/{id}", func(w http.ResponseWriter, r *http.Request) {
		item, err := a.Approval(r.Context(), r.PathValue("id"))
		answer(w, item, err)
	})
	decide := func(grant bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			item, err := a.Decide(r.Context(), r.PathValue("id"), grant, r.URL.Query().Get("reason"), r.Header.Get(headerAPIKey))
			answer(w, item, err)
		}
	}
	mux.HandleFunc("POST /v1/approvals/{id}/approve", decide(true))
	mux.HandleFunc("POST /v1/approvals/{id}/deny", decide(false))
}

// Approvals returns the questions that the gateway keeps.
func (c *Client) Approvals(ctx context.Context, state string) ([]approval.Item, error) {
	var out []approval.Item
	err := c.do(ctx, http.MethodGet, "/v1/approvals?"+url.Values{"state": {state}}.Encode(), &out)
	return out, err
}

// Approval returns one question.
func (c *Client) Approval(ctx context.Context, id string) (approval.Item, error) {
	var out approval.Item
	err := c.do(ctx, http.MethodGet, "/v1/approvals/"+url.PathEscape(id), &out)
	return out, err
}

// Decide answers a question as the holder of an API key; an empty one is that
// of nobody, and the admin token alone counts.
func (c *Client) Decide(ctx context.Context, id string, grant bool, reason, key string) (approval.Item, error) {
	var out approval.Item
	path := "/v1/approvals/" + url.PathEscape(id) + "/deny"
	if grant {
		path = "/v1/approvals/" + url.PathEscape(id) + "/approve"
	}
	err := c.doAs(ctx, key, http.MethodPost, path+"?"+url.Values{"reason": {reason}}.Encode(), &out)
	return out, err
}
