package auth_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
)

func newResource(t *testing.T, change ...func(*auth.ResourceOptions)) *auth.Resource {
	t.Helper()
	o := auth.ResourceOptions{
		PublicURL: "https://gw.example", AuthorizationServers: []string{"https://as.example"},
		Views:  []string{"/find", "/strict", "/strict/find"},
		Scopes: []string{"mcp:use", "offline_access"}, ScopesSupported: []string{"mcp:use", "offline_access", "mcp:admin"},
	}
	for _, c := range change {
		c(&o)
	}
	x, err := auth.NewResource(o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestResourceMetadata is RS1, RS11 and RS19: a document per endpoint, without
// authentication, that no header changes.
func TestResourceMetadata(t *testing.T) {
	t.Parallel()
	const at = "/.well-known/oauth-protected-resource"
	tests := []struct {
		public, path, resource string // an empty resource is 404
	}{
		{"https://gw.example", at, "https://gw.example/mcp"},
		{"https://gw.example/", at + "/mcp", "https://gw.example/mcp"},
		{"HTTPS://GW.example:8443", at + "/mcp", "https://gw.example:8443/mcp"},
		{"https://gw.example", at + "/mcp/s/files", "https://gw.example/mcp/s/files"},
		{"https://gw.example", at + "/mcp/s/my%20files", "https://gw.example/mcp/s/my%20files"},
		{"https://gw.example", at + "/mcp/c/research", "https://gw.example/mcp/c/research"},
		{"https://gw.example", at + "/sse", "https://gw.example/sse"},
		{"https://gw.example", at + "/message", ""},
		{"https://gw.example", at + "/", ""},
		{"https://gw.example", at + "/mcp/find", "https://gw.example/mcp/find"},
		{"https://gw.example", at + "/mcp/c/research/find", "https://gw.example/mcp/c/research/find"},
		{"https://gw.example", at + "/mcp/strict", "https://gw.example/mcp/strict"},
		{"https://gw.example", at + "/mcp/strict/find", "https://gw.example/mcp/strict/find"},
		{"https://gw.example", at + "/mcp/find/strict", ""},
		{"https://gw.example", at + "/mcp/find/find", ""},
		{"https://gw.example", at + "/message/find", ""},
		{"https://gw.example", at + "/mcp/", ""},
		{"https://gw.example", at + "//mcp", ""},
		{"https://gw.example", at + "/MCP", ""},
		{"https://gw.example", at + "/mcp/s/", ""},
		{"https://gw.example", at + "/mcp/s/a/b", ""},
		{"https://gw.example", at + "/mcp/s/..", ""},
		{"https://gw.example", at + "/mcp%2fs%2fa", ""},
		{"https://gw.example", at + "/other", ""},
		{"https://example.com/tools/", at + "/tools/mcp", "https://example.com/tools/mcp"},
		{"https://example.com/tools", at + "/tools/mcp/s/a", "https://example.com/tools/mcp/s/a"},
		{"https://example.com/tools", at + "/tools", "https://example.com/tools/mcp"},
		{"https://example.com/tools", at, "https://example.com/tools/mcp"},
		{"https://example.com/tools", at + "/mcp", ""},
		{"https://example.com/tools", at + "/toolsmcp", ""},
	}
	for _, tt := range tests {
		x := newResource(t, func(o *auth.ResourceOptions) { o.PublicURL = tt.public })
		server := serve(t, &auth.Chain{}, x, nil)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+tt.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "evil.example"
		for _, h := range []string{"X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Uri", "X-Forwarded-Prefix", "X-Original-Url", "Forwarded", "X_Forwarded_User"} {
			r.Header.Set(h, "evil.example")
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if tt.resource == "" {
			if resp.StatusCode == http.StatusOK || strings.Contains(string(body), "evil") {
				t.Errorf("%s of %s: %d %s", tt.path, tt.public, resp.StatusCode, body)
			}
			continue
		}
		var got map[string]any
		if err := json.Unmarshal(body, &got); err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s of %s: %d %s", tt.path, tt.public, resp.StatusCode, body)
		}
		want := map[string]any{
			"resource": tt.resource, "authorization_servers": []any{"https://as.example"},
			"scopes_supported": []any{"mcp:use", "mcp:admin"}, "bearer_methods_supported": []any{"header"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", tt.path, tt.public, diff)
		}
	}
}

// TestResourceRoundTrip is RS2 with the official SDK as the client: from the
// challenge to the metadata and back to the endpoint.
func TestResourceRoundTrip(t *testing.T) {
	t.Parallel()
	var x *auth.Resource
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { gateway(&auth.Chain{}, x, nil).ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	x = newResource(t, func(o *auth.ResourceOptions) { o.PublicURL = server.URL })
	for _, path := range []string{"/mcp", "/mcp/s/files", "/mcp/c/research", "/sse", "/mcp/find", "/mcp/s/files/find", "/sse/find"} {
		resp, _ := post(t, server.Client(), server.URL+path, "Host", "evil.example", "X-Forwarded-Host", "evil.example")
		challenges, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
		if err != nil || len(challenges) != 1 || challenges[0].Scheme != "bearer" {
			t.Fatalf("%s: challenges %+v, error %v", path, challenges, err)
		}
		if got := challenges[0].Params["scope"]; got != "mcp:use" {
			t.Errorf("%s: scope %q", path, got)
		}
		meta, err := oauthex.GetProtectedResourceMetadata(t.Context(), challenges[0].Params["resource_metadata"], server.URL+path, server.Client())
		if err != nil || meta == nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

func TestResourceMethods(t *testing.T) {
	t.Parallel()
	x := newResource(t)
	for method, want := range map[string]int{
		http.MethodGet: 200, http.MethodHead: 200, http.MethodOptions: 204, http.MethodPost: 405, http.MethodDelete: 405, "X": 405,
	} {
		r := newRequest(t, "192.0.2.1:1")
		r.Method, r.URL.Path = method, "/.well-known/oauth-protected-resource"
		w := httptest.NewRecorder()
		x.ServeHTTP(w, r)
		if w.Code != want || w.Header().Get("Access-Control-Allow-Origin") != "*" || w.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d %v", method, w.Code, w.Header())
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	x := newResource(t)
	at := func(path string) string {
		return `resource_metadata="https://gw.example/.well-known/oauth-protected-resource` + path + `"`
	}
	lacking := &auth.ScopeError{Lacks: []string{"b"}, Needed: []string{"a", "b"}, Granted: []string{"z", "a", "offline_access"}}
	big := &auth.ScopeError{Lacks: []string{"b"}, Needed: []string{"b"}, Granted: []string{strings.Repeat("z", 5000)}}
	tests := []struct {
		name, path string
		x          *auth.Resource
		err        error
		status     int
		challenge  string
		message    string
	}{
		{"no token", "/mcp", x, gate.ErrNoCredential, 401, `Bearer scope="mcp:use", ` + at("/mcp"), "authentication is required"},
		{"bad token", "/mcp/s/a", x, fmt.Errorf("%w: why", gate.ErrBadCredential), 401, `Bearer error="invalid_token", scope="mcp:use", ` + at("/mcp/s/a"), "the token is not valid"},
		{"alias", "/message", x, gate.ErrNoCredential, 401, `Bearer scope="mcp:use", ` + at("/sse"), "authentication is required"},
		{"no endpoint", `/x"y`, x, gate.ErrNoCredential, 401, `Bearer scope="mcp:use", ` + at("/mcp"), "authentication is required"},
		{"scopes", "/mcp", x, fmt.Errorf("call: %w", lacking), 403, `Bearer error="insufficient_scope", scope="a b z", ` + at("/mcp"), "the token lacks the scope b"},
		{"too many scopes", "/mcp", x, big, 403, `Bearer error="insufficient_scope", scope="b", ` + at("/mcp"), "the token lacks the scope b"},
		{"forbidden", "/mcp", x, gate.ErrForbidden, 403, "", gate.ErrForbidden.Error()},
		{"unavailable", "/mcp", x, fmt.Errorf("%w: secret host", auth.ErrUnavailable), 503, "", auth.ErrUnavailable.Error()},
		{"unknown", "/mcp", x, errors.New("boom"), 401, `Bearer error="invalid_token", scope="mcp:use", ` + at("/mcp"), "the token is not valid"},
		{"none", "/mcp", x, nil, 401, `Bearer error="invalid_token", scope="mcp:use", ` + at("/mcp"), "the token is not valid"},
		{"no resource", "/mcp", nil, gate.ErrNoCredential, 401, "Bearer", "authentication is required"},
		{"no resource, bad token", "/mcp", nil, gate.ErrBadCredential, 401, `Bearer error="invalid_token"`, "the token is not valid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRequest(t, "192.0.2.1:1")
			r.URL.Path = tt.path
			f := tt.x.Refuse(r, tt.err)
			if f.Status != tt.status || f.Challenge != tt.challenge || f.Message != tt.message || (f.RetryAfter > 0) != (tt.status == 503) {
				t.Errorf("got  %+v\nwant %d %q %q", f, tt.status, tt.challenge, tt.message)
			}
		})
	}
}

func TestNewResourceRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*auth.ResourceOptions){
		"no URL":              func(o *auth.ResourceOptions) { o.PublicURL = "" },
		"no scheme":           func(o *auth.ResourceOptions) { o.PublicURL = "gw.example" },
		"http":                func(o *auth.ResourceOptions) { o.PublicURL = "http://gw.example" },
		"query":               func(o *auth.ResourceOptions) { o.PublicURL = "https://gw.example?x" },
		"fragment":            func(o *auth.ResourceOptions) { o.PublicURL = "https://gw.example#x" },
		"no server":           func(o *auth.ResourceOptions) { o.AuthorizationServers = nil },
		"script as server":    func(o *auth.ResourceOptions) { o.AuthorizationServers = []string{"javascript:alert(1)"} },
		"scope with a quote":  func(o *auth.ResourceOptions) { o.Scopes = []string{`a"`} },
		"many scopes":         func(o *auth.ResourceOptions) { o.Scopes = []string{strings.Repeat("a", 3000)} },
		"wild main endpoint":  func(o *auth.ResourceOptions) { o.Endpoints = []string{"/mcp/*"} },
		"no endpoint":         func(o *auth.ResourceOptions) { o.Endpoints = []string{} },
		"endpoint is a query": func(o *auth.ResourceOptions) { o.Endpoints = []string{"/mcp", "/x?y"} },
		"alias of nothing":    func(o *auth.ResourceOptions) { o.Aliases = map[string]string{"/a": "/b"} },
	} {
		o := auth.ResourceOptions{PublicURL: "https://gw.example", AuthorizationServers: []string{"https://as.example"}}
		change(&o)
		if _, err := auth.NewResource(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
