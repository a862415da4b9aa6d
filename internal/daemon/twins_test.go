//go:build !windows

package daemon_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// modern sends a request of 2026-07-28 as the owner of a key, over HTTP without
// a network.
func (r *running) modern(t *testing.T, key, path, method, name, params string) *response {
	t.Helper()
	body, headers := modernRequest(method, name, params)
	return r.post(t, key, path, body, headers...)
}

// post sends a message as the owner of a key, with further headers as name and
// value. What could not be decided in time, because the machine has other things
// to do, is asked again.
func (r *running) post(t *testing.T, key, path, body string, headers ...string) (got *response) {
	t.Helper()
	testwait.Until(t, patience, "the gate decides", func() bool {
		got = r.postOnce(t, key, path, body, headers...)
		return !strings.Contains(got.body, `"kind":"policy_error"`)
	})
	return got
}

func (r *running) postOnce(t *testing.T, key, path, body string, headers ...string) *response {
	t.Helper()
	q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1"+path, strings.NewReader(body))
	q.RemoteAddr = "127.0.0.1:9"
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	if key != "" {
		q.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	r.Gateway.Handler().ServeHTTP(w, q)
	return &response{w.Code, w.Header(), w.Body.String()}
}

// toolsOf lists the tools of the owner of a key.
func (r *running) toolsOf(t *testing.T, key string) []string {
	t.Helper()
	got := r.modern(t, key, "/mcp", mcp.MethodToolsList, "", "")
	list := mcp.Lookup([]byte(got.body), "result", "tools")
	if list == nil {
		t.Fatalf("the list of %s: %+v", key, got)
	}
	names := []string{}
	for e := range mcp.Elements(list) {
		name, _ := mcp.LookupString(e.Of(list), "name")
		names = append(names, name)
	}
	return names
}

// use calls a tool as the owner of a key.
func (r *running) use(t *testing.T, key, tool, arguments string) *response {
	t.Helper()
	return r.modern(t, key, "/mcp", mcp.MethodToolsCall, tool, fmt.Sprintf(`"name":%q,"arguments":%s,`, tool, arguments))
}

// policies puts the default policy and its data into the home.
func (h *home) policies(t *testing.T, data string) {
	t.Helper()
	rego, err := os.ReadFile("../../examples/policies/policies/default.rego")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"default.rego": string(rego), "data.json": data} {
		at := h.path("policies/" + name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A server that lists a twin of each of its tools changes the names of both. No
// rule that keeps a caller away is lifted by that, and none that lets one in
// begins to cover what it did not.
func TestTwinsLiftNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	section := withKeys("k")
	section["registry"] = map[string]any{"on_new": "enable"}
	section["auth"].(map[string]any)["scopes"] = map[string]any{"required": []any{map[string]any{"match": "a__echo", "scopes": "admin"}}}
	section["capsules"] = map[string]any{"c": map[string]any{
		"visible": []string{"a__echo*", "a__fail*", "a__pid*", "a__fault*", "a__slow_*", "a__E*", "a__F*", "a__P*"}, "groups": []string{"g"},
		"callable": []string{"*"},
	}}
	section["auth"].(map[string]any)["keys"].([]any)[0].(map[string]any)["groups"] = []string{"g"}
	section["spicedb"] = map[string]any{"builtin": map[string]any{
		"servers": map[string]any{"a": map[string]any{"executors": []string{"user:k"}}},
		"tools":   map[string]any{"a__pid": map[string]any{"banned": []string{"user:k"}}},
	}}
	section["opa"] = map[string]any{"path": "policies"}
	h.policies(t, `{"global_tool_deny": ["a__fail"], "tenant_restricted_args": {"default": {"a__fault": {"x": [1]}}}}`)
	h.write(t, servers{"a": fake()}, section)
	r := h.newRunning(t)
	if got := r.toolsOf(t, "k"); !slices.Equal(got, []string{"a__echo", "a__fault"}) {
		t.Fatalf("without twins %q are listed", got)
	}
	check := func(echo, fault string) {
		t.Helper()
		if got := r.use(t, "k", echo, "{}"); got.status != http.StatusForbidden || got.challenge("scope") != "admin" {
			t.Errorf("%s: %+v", echo, got)
		}
		if got := r.use(t, "k", fault, `{"x":1}`).body; !strings.Contains(got, "restricted_arg:x") {
			t.Errorf("%s with a restricted argument: %s", fault, got)
		}
		if got := r.use(t, "k", fault, `{"x":2}`).body; !strings.Contains(got, "not here") {
			t.Errorf("%s: %s", fault, got)
		}
	}
	check("a__echo", "a__fault")

	h.write(t, servers{"a": fake("name=ECHO", "name=FAIL", "name=PID", "name=FAULT", "name=SLOW")}, section)
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	own := map[string]string{}
	for _, c := range r.Gateway.Capabilities() {
		if c.Kind == mcp.Tool {
			own[c.Original] = c.Exposed
		}
	}
	want := []string{own["echo"], own["fault"], own["ECHO"], own["FAIL"], own["PID"], own["FAULT"]}
	slices.Sort(want)
	if got := r.toolsOf(t, "k"); !slices.Equal(got, want) {
		t.Errorf("with twins %q are listed, want %q", got, want)
	}
	check(own["echo"], own["fault"])
	for _, original := range []string{"pid", "fail", "slow"} {
		if got := r.use(t, "k", own[original], "{}").body; !strings.Contains(got, "Unknown tool: "+own[original]) {
			t.Errorf("%s: %s", own[original], got)
		}
	}
	if got := r.use(t, "k", own["PID"], "{}").body; !strings.Contains(got, "not here") { // it reached the server
		t.Errorf("%s: %s", own["PID"], got)
	}
}

// alikeNames are names of tools, as clients would know them, that have one hash where
// policies look for them.
var alikeNames = []string{
	"a__0KUDioIsRXT_vC0Uex3R1C3o1eJl2N3KLV_nf",
	"a__4IYTsoohMOzsmmMSxfE7v2vLwgixorcQU7F62",
	"a__7du8QkV57J5ZNtndSaxmYNs40WrizMWcFJa5j",
	"a__8Mkhpf4XTbdLSaiBhHCx1WWYzyW7k9kF5mqbx",
	"a__JHkDPe9_METvnem7Kp3HqLPrex73vDZTR3s8b",
	"a__NPaE5n4QuR9D9sGkDfKzGsdkk2VGrlONjKOfE",
	"a__P9sqJRT3rkzHenRcq3uWKhspjlTbfr6drpeWJ",
	"a__StzvPlm22PS_o8Ks8AhzSouvvewW6B5Veonq4",
	"a__bNZfq9Zf2yRR17Q43EvQntwxDHKNzJv1-LyLP",
	"a__cScCmChKbt9B9zFBofsegfyTjo8CK4Hd5BS3G",
	"a__eyA4ljd1PWv-n_bMuU51NFUCbja7LOqAAfYb3",
	"a__frk_ubFb5FN_KSS4A2cXwZ6l7qCT7g_HwUrW0",
}

// A server cannot slow policies down by the names that it gives its tools.
func TestServersOfferFewNamesOfOneHash(t *testing.T) {
	t.Parallel()
	for _, name := range alikeNames {
		if opa.KeyHash(name) != opa.KeyHash(alikeNames[0]) {
			t.Fatal("the hash of policies is another now; make names that collide by that one")
		}
	}
	h := newHome(t)
	args := []string{"tools=1"}
	for _, name := range alikeNames {
		args = append(args, "name="+strings.TrimPrefix(name, "a__"))
	}
	h.write(t, servers{"a": fake(args...)}, withKeys("k"))
	got := h.newRunning(t).toolsOf(t, "k")
	if want := append(alikeNames[:8:8], "a__t0"); !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}
