//go:build linux

package daemon_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// decidedByPolicy runs a gateway with a policy whose calls are in the audit log.
func decidedByPolicy(t *testing.T, recorded bool) *looked {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.rego": "package toolgate\n\ndefault decision := {\"allow\": true}\n\ndecision := {\"allow\": false, \"reason\": \"no text\"} if input.tool_name in data.names.closed\n", "names/data.json": `{"closed":["a__picture"]}`,
	} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := lookedAt(t, servers{"a": fake()}, map[string]any{"opa": map[string]any{"path": dir}, "audit": map[string]any{"decision_inputs": recorded}})
	l.calledBy(t, "alice", "a__pid", 2)
	c := l.r.Client(t, "alice")
	if _, err := c.Request(t.Context(), mcp.MethodToolsCall, []byte(`{"name":"a__echo","arguments":{"text":"hidden words"}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Request(t.Context(), mcp.MethodToolsCall, []byte(`{"name":"a__picture","arguments":{}}`)); err == nil {
		t.Fatal("the policy lets everything through")
	}
	testwait.Until(t, patience, "all calls are in the audit log", func() bool {
		found, err := l.r.SearchAudit(t.Context(), "kind=tool", 10)
		return err == nil && found.Found == 4
	})
	return l
}

// replayed posts a policy as the page has it.
func (b *browser) replayed(t *testing.T, since string, files map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	form := url.Values{"since": {since}}
	for name, text := range files {
		form["name"], form["text"], form["added"] = append(form["name"], name), append(form["text"], strings.ReplaceAll(text, "\n", "\r\n")), append(form["added"], "")
	}
	return b.post(t, "/access/replay", form)
}

// An administrator changes the policy in the browser, and sees which calls would be decided
// otherwise.
func TestConsoleReplay(t *testing.T) {
	t.Parallel()
	l := decidedByPolicy(t, false)
	b := l.as(t, "root")
	page := b.get(t, "/access/replay").Body.String()
	for _, part := range []string{"main.rego", "input.tool_name in data.names.closed", "toolgate policy replay policies-new/ --gateway --since=24h"} {
		if !strings.Contains(page, part) {
			t.Errorf("the form lacks %q", part)
		}
	}
	if strings.Contains(page, "a__picture") || !strings.Contains(b.get(t, "/access").Body.String(), `href="/access/replay"`) || strings.Contains(l.as(t, "auditor").get(t, "/access").Body.String(), "/access/replay") {
		t.Error("the form has data, or the view leads nowhere, or leads auditors there")
	}
	const next = "package toolgate\n\ndefault decision := {\"allow\": true}\n\ndecision := {\"allow\": false, \"reason\": \"<b>gone</b>\"} if input.tool_name == \"a__pid\"\n"
	w := b.replayed(t, "1h", map[string]string{"main.rego": next, "more.rego": ""})
	found, err := l.r.ReplayPolicy(t.Context(), admin.PolicyReplay{Files: []admin.PolicyFile{{Name: "main.rego", Text: next}}})
	if err != nil || found.Calls != 4 || len(found.Changed) != 3 || found.Same != 1 || found.Counts[0] != (admin.PolicyChange{Was: "allow", Now: "deny", Calls: 2}) {
		t.Fatalf("%+v %v", found, err)
	}
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "3 of 4 calls would be decided otherwise") || !strings.Contains(w.Body.String(), "&lt;b&gt;gone&lt;/b&gt;") || strings.Contains(w.Body.String(), "<b>") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, c := range found.Changed {
		if !strings.Contains(w.Body.String(), `href="/calls/`+c.ID+`"`) {
			t.Errorf("call %s is not on the page", c.ID)
		}
	}
	for name, tt := range map[string]struct {
		since, rego string
		status      int
		says        string
	}{
		"a fault":          {"1h", "package toolgate\n\ndecision := tru\n", http.StatusUnprocessableEntity, "line 3: rego_unsafe_var_error"},
		"nothing":          {"1h", " ", http.StatusUnprocessableEntity, "the policy has no file"},
		"no time":          {"x", next, http.StatusUnprocessableEntity, "write since as a duration"},
		"no UTF-8":         {"1h", next + "# \xff\n", http.StatusUnprocessableEntity, "line 6: this is not UTF-8"},
		"too much":         {"1h", next + "#" + strings.Repeat("x", admin.MaxPolicyText), http.StatusUnprocessableEntity, "1024 KiB"},
		"no calls by then": {"1ns", next, http.StatusOK, "0 of 0 calls"},
	} {
		if w := b.replayed(t, tt.since, map[string]string{"main.rego": tt.rego}); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) {
			t.Errorf("%s: %d %.2000s", name, w.Code, w.Body)
		}
	}
	if w := b.post(t, "/access/replay", url.Values{"since": {"1h"}, "name": {"a.rego"}}); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("a name without a file: %d", w.Code)
	}
	log, err := l.r.SearchAudit(t.Context(), "event=change method=toolgate/policy.replay", 10)
	if err != nil || log.Found < 2 || log.Entries[0].Principal.Subject != "root" || !strings.HasPrefix(log.Entries[0].Reason, "4 calls since ") {
		t.Errorf("in the audit log: %+v %v", log, err)
	}
}

// The arguments of calls are on no page that the operator's settings do not allow, whatever
// a policy says.
func TestConsoleReplayOfArguments(t *testing.T) {
	t.Parallel()
	const tells = "package toolgate\n\ndecision := {\"allow\": false, \"reason\": sprintf(\"%v %v\", [input.action, input.args])} if input.action == \"tool.request\"\n\ndecision := true if input.action == \"tool.view\"\n"
	for _, recorded := range []bool{false, true} {
		t.Run(fmt.Sprintf("recorded %v", recorded), func(t *testing.T) {
			t.Parallel()
			l := decidedByPolicy(t, recorded)
			w := l.as(t, "root").replayed(t, "1h", map[string]string{"p.rego": tells})
			if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "hidden words") != recorded || strings.Contains(w.Body.String(), "shown those") != true {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if !recorded && !strings.Contains(w.Body.String(), "0 of 4 calls") {
				t.Errorf("calls are decided without what the policy reads: %s", w.Body)
			}
			for _, key := range []string{"auditor", "viewer", "alice"} {
				if w := l.as(t, key).replayed(t, "1h", map[string]string{"p.rego": tells}); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "hidden words") {
					t.Errorf("%s: %d %s", key, w.Code, w.Body)
				}
			}
		})
	}
}

// Over HTTP only administrators have a policy replayed, and see it.
func TestPolicyIsForAdministrators(t *testing.T) {
	t.Parallel()
	l := decidedByPolicy(t, false)
	handler := admin.Handler(l.r.Control, "token")
	for key, want := range map[string]int{"root": http.StatusOK, "auditor": http.StatusForbidden, "viewer": http.StatusForbidden, "alice": http.StatusForbidden, "nobody": http.StatusUnauthorized} {
		for path, body := range map[string]string{"/v1/policy": "", "/v1/policy/replay": `{"files":[{"name":"p.rego","text":"package toolgate\ndecision := true"}],"since":"` + time.Now().Add(-time.Hour).Format(time.RFC3339) + `"}`} {
			method := http.MethodGet
			if body != "" {
				method = http.MethodPost
			}
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+key)
			w := httptest.NewRecorder()
			if handler.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s at %s: %d %s", key, path, w.Code, w.Body)
			}
			var got admin.PolicyReplayed
			if body != "" && want == http.StatusOK && (json.Unmarshal(w.Body.Bytes(), &got) != nil || got.Calls != 4 || got.Counts[0].Now != "allow") {
				t.Errorf("%s", w.Body)
			}
		}
	}
}
