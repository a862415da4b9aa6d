//go:build !windows

package daemon_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/admin/admintest"
)

// Every question of the admin API is answered as its description says, with what a gateway
// has and without.
func TestAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("one")}, map[string]any{"budgets": []any{map[string]any{"name": "b", "per": "tenant", "limit": 1000, "window": "hour"}}})
	l.calledBy(t, "alice", "a__pid", 2)
	handler := admintest.Check(t, admin.Handler(l.r.Control, "token"), http.Header{"Toolgate-Token": {"token"}})
	ask := func(method, path, body string) (int, []byte) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("Toolgate-Token", "token")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code, w.Body.Bytes()
	}
	_, text := ask(http.MethodGet, "/openapi.json", "")
	var described struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(text, &described); err != nil || len(described.Paths) < 50 {
		t.Fatalf("%d paths: %v", len(described.Paths), err)
	}
	calls, err := l.r.Calls(t.Context(), admin.CallQuery{})
	if err != nil || len(calls) == 0 {
		t.Fatal(calls, err)
	}
	since := url.QueryEscape(time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	query := map[string]string{
		"/v1/why": "?name=a__pid&as=alice", "/v1/who-can": "?name=a__pid", "/v1/catalog/entry": "?name=a__pid", "/v1/catalog/history": "?name=a__pid",
		"/v1/logs": "?server=a", "/v1/calls/over": "?step=1m&since=" + since, "/v1/usage": "?by=tool,server&since=" + since, "/v1/audit": "?limit=5",
		"/v1/tries/tool": "?name=a__pid",
	}
	// These need what this gateway does not have, or a key.
	refused := map[string]int{
		"/v1/approvals/{id}": 404, "/v1/runs/{id}": 404, "/v1/tries": 403, "/v1/tries/tools": 403, "/v1/tries/tool": 403, "/v1/tries/{id}": 403,
	}
	for path, methods := range described.Paths {
		if methods["get"] == nil {
			continue
		}
		want := http.StatusOK
		if refused[path] != 0 {
			want = refused[path]
		}
		at := strings.ReplaceAll(path, "{id}", calls[0].ID) + query[path]
		if status, text := ask(http.MethodGet, at, ""); status != want {
			t.Errorf("GET %s: %d %s", at, status, text)
		}
		if query[path] != "" { // without what it needs
			ask(http.MethodGet, path, "")
		}
	}
	for path, body := range map[string]string{
		"/v1/find":                            `{"queries":["pid"],"limit":3,"as":"alice"}`,
		"/v1/policy/replay":                   `{"files":[{"name":"p.rego","text":"package toolgate\ndecision := true\n"}],"since":"2026-01-01T00:00:00Z"}`,
		"/v1/catalog/change":                  `{"op":"disable","name":"a__pid","actor":"x"}`,
		"/v1/mode?mode=NORMAL&reason=x":       "",
		"/v1/breakers/reset?server=a":         "",
		"/v1/servers/a/restart":               "",
		"/v1/budgets/rebuild":                 "",
		"/v1/reload":                          "",
		"/v1/logins/begin?server=a":           "",
		"/v1/logins/end?server=a":             "",
		"/v1/approvals/none/approve?reason=x": "",
		"/v1/runs/none/cancel":                "",
		"/v1/declared/none/remove":            "",
		"/v1/dynamic/none/remove":             "",
		"/v1/declared":                        `{"file":"x.yaml","data":"e30="}`,
		"/v1/find/train":                      `{"callers":1}`,
		"/v1/find/forget":                     `{"callers":1}`,
		"/v1/catalog/seed":                    `{"file":"x.yaml","data":"e30=","actor":"x"}`,
		"/v1/console/link":                    "",
	} {
		if status, text := ask(http.MethodPost, path, body); status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable {
			t.Errorf("POST %s: %d %s", path, status, text)
		}
	}
}
