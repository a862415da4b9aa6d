package admin

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/toolgate/toolgate/internal/audit"
)

const (
	// auditLimit is how many entries a search answers with unless it says.
	auditLimit = 50
	// MaxAuditLimit is how many it answers with at most.
	MaxAuditLimit = 1000
)

// Errors of an [AuditReader].
var (
	// ErrAuditQuery is of a query that is none.
	ErrAuditQuery = errors.New("the query cannot be read")
	// ErrNoCall is of an id that the log does not have.
	ErrNoCall = errors.New("the audit log has no such call")
	// ErrAuditBusy is of a question that comes while another one is answered.
	ErrAuditBusy = errors.New("the audit log is being read for somebody else; try again")
)

// AuditFound is what a search found.
type AuditFound struct {
	Entries []audit.Record `json:"entries"` // the last ones, the latest last
	Found   int            `json:"found"`   // how many there are
	// Unreadable says that lines were passed over; empty where none were.
	Unreadable string `json:"unreadable,omitempty"`
}

// AuditReader is a [Gateway] that keeps an audit log.
type AuditReader interface {
	// SearchAudit returns the last entries that fit a query, or [ErrAuditQuery],
	// wrapped.
	SearchAudit(ctx context.Context, query string, limit int) (AuditFound, error)
	// ShowAudit returns the lines of a call, or [ErrNoCall].
	ShowAudit(ctx context.Context, id string) (AuditFound, error)
	// VerifyAudit returns what is not as the gateway wrote it.
	VerifyAudit(ctx context.Context) (*audit.Report, error)
}

func handleAudit(mux *http.ServeMux, a AuditReader) {
	answer := func(w http.ResponseWriter, v any, err error) {
		status := http.StatusServiceUnavailable
		switch {
		case err == nil:
			writeJSON(w, http.StatusOK, v)
			return
		case errors.Is(err, ErrAuditQuery):
			status = http.StatusBadRequest
		case errors.Is(err, ErrNoCall):
			status = http.StatusNotFound
		case errors.Is(err, ErrAuditBusy):
			status = http.StatusTooManyRequests
		}
		writeJSON(w, status, map[string]any{"error": err.Error()})
	}
	mux.HandleFunc("GET /v1/audit", func(w http.ResponseWriter, r *http.Request) {
		limit := auditLimit
		if text := r.URL.Query().Get("limit"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > MaxAuditLimit {
				writeJSON(w, http.StatusBadRequest, map[string]any{"error": "limit must be a number from 1 to " + strconv.Itoa(MaxAuditLimit)})
				return
			}
			limit = n
		}
		found, err := a.SearchAudit(r.Context(), r.URL.Query().Get("q"), limit)
		answer(w, found, err)
	})
	mux.HandleFunc("GET /v1/audit/calls/{id}", func(w http.ResponseWriter, r *http.Request) {
		found, err := a.ShowAudit(r.Context(), r.PathValue("id"))
		answer(w, found, err)
	})
	mux.HandleFunc("GET /v1/audit/verify", func(w http.ResponseWriter, r *http.Request) {
		report, err := a.VerifyAudit(r.Context())
		answer(w, report, err)
	})
}
