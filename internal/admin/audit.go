package admin

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/toolgate/toolgate/internal/audit"
)

const (
	// auditLimit is the default number of entries in an answer.
	auditLimit = 50
	// MaxAuditLimit is the maximum number of entries in an answer.
	MaxAuditLimit = 1000
)

// Errors of an [AuditReader].
var (
	// ErrAuditQuery says that a query is invalid.
	ErrAuditQuery = errors.New("the query cannot be read")
	// ErrNoCall says that the log does not have the id.
	ErrNoCall = errors.New("the audit log has no such call")
	// ErrAuditBusy says that another request is being answered.
	ErrAuditBusy = errors.New("the audit log is being read for somebody else; try again")
)

// AuditFound is the result of a search.
type AuditFound struct {
	Entries []audit.Record `json:"entries"` // the last matching ones, the latest last
	Found   int            `json:"found"`   // number of matching entries
	// Unreadable says that lines were skipped; empty if there were none.
	Unreadable string `json:"unreadable,omitempty"`
}

// AuditReader is a [Gateway] with an audit log.
type AuditReader interface {
	// SearchAudit returns the last entries that match a query, or [ErrAuditQuery],
	// wrapped.
	SearchAudit(ctx context.Context, query string, limit int) (AuditFound, error)
	// ShowAudit returns the lines of a call, or [ErrNoCall].
	ShowAudit(ctx context.Context, id string) (AuditFound, error)
	// VerifyAudit returns everything that is not as the gateway wrote it.
	VerifyAudit(ctx context.Context) (*audit.Report, error)
}

func handleAudit(mux *router, a AuditReader) {
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
