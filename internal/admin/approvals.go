package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/toolgate/toolgate/gate/approval"
)

// Approvals is a [Gateway] with questions to people about calls.
type Approvals interface {
	// Approvals returns the last questions in a state, or in any state if it is empty.
	Approvals(ctx context.Context, state string) ([]approval.Item, error)
	// Approval returns one question, or [approval.ErrUnknown], wrapped.
	Approval(ctx context.Context, id string) (approval.Item, error)
	// Answer answers one question, or takes a denial back.
	Answer(ctx context.Context, id string, a Answer) (approval.Item, error)
}

// The values of [Answer.Do].
const (
	Approve = "approve"
	Deny    = "deny"
	Retract = "retract" // takes back a denial
)

// Answer is a person's answer about a waiting call.
type Answer struct {
	Do     string
	Reason string
	// Hash is the hash of the approved arguments, see [approval.Answerer].
	Hash string
	// Key is the API key of whoever answers. It is empty for somebody with the admin
	// token alone.
	Key string
}

func handleApprovals(mux *router, a Approvals) {
	answer := func(w http.ResponseWriter, v any, err error) {
		status := http.StatusOK
		switch {
		case err == nil:
			writeJSON(w, status, v)
			return
		case errors.Is(err, approval.ErrUnknown):
			status = http.StatusNotFound
		case errors.Is(err, approval.ErrDecided), errors.Is(err, approval.ErrNoDenial):
			status = http.StatusConflict
		case errors.Is(err, approval.ErrUnseen):
			status = http.StatusPreconditionRequired
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
	for _, do := range []string{Approve, Deny, Retract} {
		mux.HandleFunc("POST /v1/approvals/{id}/"+do, func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			item, err := a.Answer(r.Context(), r.PathValue("id"), Answer{Do: do, Reason: q.Get("reason"), Hash: q.Get("hash"), Key: r.Header.Get(headerAPIKey)})
			answer(w, item, err)
		})
	}
}

// Approvals returns the gateway's questions.
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

// Answer answers a question as the holder of an API key. With an empty key the answer
// counts by the admin token alone.
func (c *Client) Answer(ctx context.Context, id string, a Answer) (approval.Item, error) {
	var out approval.Item
	query := url.Values{"reason": {a.Reason}, "hash": {a.Hash}}
	err := c.doAs(ctx, a.Key, http.MethodPost, "/v1/approvals/"+url.PathEscape(id)+"/"+a.Do+"?"+query.Encode(), &out)
	return out, err
}
