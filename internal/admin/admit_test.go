package admin_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
)

// admitting is a gateway that admits whoever says yes.
type admitting struct {
	fakeGateway
	asked int
}

func (g *admitting) Admit(r *http.Request) (admin.Gateway, error) {
	g.asked++
	switch r.Header.Get("Authorization") {
	case "Bearer yes":
		return &fakeGateway{}, nil
	case "Bearer no":
		return nil, fmt.Errorf("%w: bob", admin.ErrNotAdmin)
	case "Bearer later":
		return nil, errors.Join(admin.ErrLater, errors.New("the issuer at secret.example is down"))
	}
	return nil, errors.New("the key begins like that of alice")
}

// An Authorization header is asked about where there is no admin token, and what
// is answered tells nothing of why. It never leads to the way to speak MCP.
func TestAdmission(t *testing.T) {
	for _, tt := range []struct {
		token, authorization, path string
		status, asked              int
		text                       string
	}{
		{"", "Bearer yes", "/v1/status", http.StatusOK, 1, "servers"},
		{"", "Bearer yes", "/v1/stdio", http.StatusNotFound, 1, "nothing at this path"},
		{"", "Bearer no", "/v1/status", http.StatusForbidden, 1, "auth.admins"},
		{"", "Bearer no", "/v1/stdio", http.StatusForbidden, 1, "auth.admins"},
		{"", "Bearer later", "/v1/status", http.StatusServiceUnavailable, 1, "try again"},
		{"", "Bearer x", "/v1/status", http.StatusUnauthorized, 1, "not known"},
		{"", "", "/v1/status", http.StatusUnauthorized, 0, "admin token"},
		{"wrong", "Bearer yes", "/v1/status", http.StatusUnauthorized, 0, "admin token"},
		{"token", "Bearer no", "/v1/status", http.StatusOK, 0, "servers"},
	} {
		g := &admitting{}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://toolgate"+tt.path, http.NoBody)
		if tt.path == "/v1/stdio" {
			r.Method = http.MethodPost
		}
		if tt.token != "" {
			r.Header.Set("Toolgate-Token", tt.token)
		}
		if tt.authorization != "" {
			r.Header.Set("Authorization", tt.authorization)
		}
		w := httptest.NewRecorder()
		admin.Handler(g, "token").ServeHTTP(w, r)
		body := w.Body.String()
		if w.Code != tt.status || g.asked != tt.asked || !strings.Contains(body, tt.text) || strings.Contains(body, "alice") || strings.Contains(body, "secret.example") || strings.Contains(body, "bob") {
			t.Errorf("%+v: %d, asked %d times: %s", tt, w.Code, g.asked, body)
		}
	}
	// Without a token of its own a gateway still admits by credentials alone.
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://toolgate/v1/status", http.NoBody)
	admin.Handler(&admitting{}, "").ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized {
		t.Errorf("nobody's request: %d", w.Code)
	}
}
