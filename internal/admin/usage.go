package admin

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ToolUsage is the usage of one group.
type ToolUsage struct {
	Group    map[string]string `json:"group"` // the values that it was grouped by
	Calls    int64             `json:"calls"`
	Failures int64             `json:"failures"` // of the tool or its server
	Refused  int64             `json:"refused"`  // by the gateway
	Errors   map[string]int64  `json:"errors"`   // failures and refusals by class
	P50MS    float64           `json:"p50_ms"`
	P95MS    float64           `json:"p95_ms"`
	BytesIn  int64             `json:"bytes_in"`
	BytesOut int64             `json:"bytes_out"`
	// BytesSaved are those that results had less because they were shaped.
	BytesSaved int64 `json:"bytes_saved"`
}

// UsageReader is a [Gateway] with an execution log.
type UsageReader interface {
	// ToolUsage returns what was executed since a time, grouped, most calls
	// first.
	ToolUsage(ctx context.Context, since time.Time, by []string) ([]ToolUsage, error)
}

func handleUsage(mux *router, u UsageReader) {
	mux.HandleFunc("GET /v1/usage", func(w http.ResponseWriter, r *http.Request) {
		since := time.Now().Add(-24 * time.Hour)
		if text := r.FormValue("since"); text != "" {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				writeJSON(w, http.StatusBadRequest, map[string]any{"error": "since must be a time such as 2026-11-21T10:00:00Z"})
				return
			}
			since = at
		}
		by := []string{"tool"}
		if text := r.FormValue("by"); text != "" {
			by = strings.Split(text, ",")
		}
		all, err := u.ToolUsage(r.Context(), since, by)
		if err != nil {
			writeJSON(w, http.StatusUnprocessableEntity, map[string]any{"error": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, usageAnswer{all})
	})
}

// ToolUsage returns what was executed since a time, grouped.
func (c *Client) ToolUsage(ctx context.Context, since time.Time, by []string) ([]ToolUsage, error) {
	var out struct{ Usage []ToolUsage }
	q := url.Values{"since": {since.UTC().Format(time.RFC3339)}, "by": {strings.Join(by, ",")}}
	err := c.do(ctx, http.MethodGet, "/v1/usage?"+q.Encode(), &out)
	return out.Usage, err
}
