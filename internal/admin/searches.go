package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Search is a search and the successful call of a tool that it found.
type Search struct {
	At     time.Time `json:"at"` // of the call
	Tenant string    `json:"tenant"`
	Caller string    `json:"caller"` // a hash
	Server string    `json:"server"`
	Tool   string    `json:"tool"` // as exposed
	Place  int       `json:"place"`
	Query  string    `json:"query"` // without secrets
}

// Bounds of the searches of an answer.
const (
	searchesLimit = 100
	// MaxSearches is the maximum number of searches in an answer.
	MaxSearches = 500
	// SearchesSince is how far back is looked where nothing else is said.
	SearchesSince = 24 * time.Hour
)

// ErrSince refuses a time that the store has no number for.
var ErrSince = errors.New("since must be a time from 1678 to 2261, such as 2026-11-21T10:00:00Z")

// CheckSince returns [ErrSince] for a time that is too far away.
func CheckSince(since time.Time) error {
	if year := since.UTC().Year(); year < 1678 || year > 2261 {
		return ErrSince
	}
	return nil
}

// SearchReader is a [Gateway] that keeps searches.
type SearchReader interface {
	// Searches returns the searches since a time, the latest first, or [ErrSince].
	Searches(ctx context.Context, since time.Time, limit int) ([]Search, error)
}

func handleSearches(mux *router, s SearchReader) {
	mux.HandleFunc("GET /v1/find/searches", func(w http.ResponseWriter, r *http.Request) {
		since, limit := time.Now().Add(-SearchesSince), searchesLimit
		var err error
		if text := r.FormValue("since"); text != "" {
			if since, err = time.Parse(time.RFC3339, text); err != nil || CheckSince(since) != nil {
				writeJSON(w, http.StatusBadRequest, map[string]any{"error": ErrSince.Error()})
				return
			}
		}
		if text := r.FormValue("limit"); text != "" {
			if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > MaxSearches {
				writeJSON(w, http.StatusBadRequest, map[string]any{"error": "limit must be a number from 1 to " + strconv.Itoa(MaxSearches)})
				return
			}
		}
		list, err := s.Searches(r.Context(), since, limit)
		answerCalls(w, list, err)
	})
}

// Searches returns the searches since a time, the latest first.
func (c *Client) Searches(ctx context.Context, since time.Time, limit int) ([]Search, error) {
	var out []Search
	v := url.Values{"since": {since.UTC().Format(time.RFC3339)}, "limit": {strconv.Itoa(limit)}}
	err := c.do(ctx, http.MethodGet, "/v1/find/searches?"+v.Encode(), &out)
	return out, err
}
