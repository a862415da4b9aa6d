//go:build !windows

package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
)

// TestProtectedResource walks through what an MCP server has to do as a
// protected resource (2026-07-28 basic/authorization), against a running
// gateway.
func TestProtectedResource(t *testing.T) {
	t.Parallel()
	p := newProtected(t)
	for _, item := range []struct {
		name string
		test func(*testing.T, *protected)
	}{
		{"RS1 metadata per endpoint", rs1},
		{"RS2 the challenge leads to it", rs2},
		{"RS3 a token on every request", rs3},
		{"RS4 no token in the query or the body", rs4},
		{"RS5 bad tokens", rs5},
		{"RS6 audiences", rs6},
		{"RS7 no token passes through", rs7},
		{"RS8 RS13 challenges", rs8},
		{"RS9 RS10 missing scopes and broader ones", rs9},
		{"RS11 no offline_access", rs11},
		{"RS12 malformed authorization", rs12},
		{"RS14 introspection", rs14},
		{"RS15 keys of issuers", rs15},
		{"RS16 stdio", rs16},
		{"RS17 sessions are bound", rs17},
		{"RS18 canonical audiences", rs18},
		{"RS19 headers poison nothing", rs19},
		{"RS20 every door", rs20},
		{"RS21 pages of other origins", rs21},
	} {
		t.Run(item.name, func(t *testing.T) { item.test(t, p) })
	}
	// Nothing of all that is in what the gateway wrote.
	if said := p.process.out.String() + p.process.err.String(); strings.Contains(said, "eyJ") || strings.Contains(said, "secret-of-gw") {
		t.Errorf("a token or a secret is in the log:\n%s", said)
	}
	audit, err := os.ReadFile(p.stateFile(t, "audit.jsonl"))
	if err != nil || strings.Contains(string(audit), "eyJ") || !strings.Contains(string(audit), p.a.issuer) {
		t.Errorf("audit: %v\n%s", err, audit)
	}
}

var endpoints = []string{"/mcp", "/mcp/s/a", "/mcp/s/nothing", "/mcp/c/all", "/mcp/c/nothing", "/sse"}

const wellKnown = "/.well-known/oauth-protected-resource"

func rs1(t *testing.T, p *protected) {
	for _, endpoint := range append([]string{""}, endpoints...) {
		got := p.do(t, http.MethodGet, wellKnown+endpoint, "")
		var doc map[string]any
		if err := json.Unmarshal([]byte(got.body), &doc); err != nil || got.status != http.StatusOK || got.header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %+v, %v", endpoint, got, err)
		}
		resource := public + endpoint
		if endpoint == "" {
			resource += "/mcp"
		}
		want := map[string]any{
			"resource": resource, "authorization_servers": []any{p.a.issuer, p.b.issuer, p.c.issuer},
			"scopes_supported": []any{"basic", "read", "write"}, "bearer_methods_supported": []any{"header"}, "resource_name": "toolgate",
		}
		if diff := cmp.Diff(want, doc); diff != "" {
			t.Errorf("%s (-want +got):\n%s", endpoint, diff)
		}
		if got.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: not for pages of other origins: %v", endpoint, got.header)
		}
	}
	// What there is and what there is not differ in nothing but the name.
	same := func(a, b string) {
		x, y := p.do(t, http.MethodGet, wellKnown+a, ""), p.do(t, http.MethodGet, wellKnown+b, "")
		if strings.ReplaceAll(x.body, a, b) != y.body || x.status != y.status {
			t.Errorf("%s and %s can be told apart: %+v, %+v", a, b, x, y)
		}
	}
	same("/mcp/s/a", "/mcp/s/nothing")
	same("/mcp/c/all", "/mcp/c/nothing")
	for _, path := range []string{"/message", "/mcp/", "/mcp/s/", "/mcp/s/a/b", "/admin", "x", "/mcp%2fs"} {
		if got := p.do(t, http.MethodGet, wellKnown+path, ""); got.status == http.StatusOK {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

func rs2(t *testing.T, p *protected) {
	for _, endpoint := range endpoints {
		got := p.modern(t, endpoint, mcp.MethodToolsList, "", "")
		at, ok := strings.CutPrefix(got.challenge("resource_metadata"), public)
		if got.status != http.StatusUnauthorized || !ok || !mcp.IsObject([]byte(got.body)) || !strings.Contains(got.body, `"jsonrpc":"2.0"`) {
			t.Fatalf("%s: %+v", endpoint, got)
		}
		doc := p.do(t, http.MethodGet, at, "")
		if resource, _ := mcp.LookupString([]byte(doc.body), "resource"); resource != public+endpoint {
			t.Errorf("%s leads to the resource %s", endpoint, resource)
		}
	}
}

func rs3(t *testing.T, p *protected) {
	alice := p.as(p.token(t))
	named := alice.session(t)
	file := p.path("side-effect")
	call := fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__slow","arguments":{"file":%q,"wait":%q}}}`, file, p.file)
	for method, body := range map[string]string{http.MethodPost: call, http.MethodGet: "", http.MethodDelete: ""} {
		for _, token := range []string{"", "wrong"} {
			if got := p.as(token).do(t, method, "/mcp", body, named...); got.status != http.StatusUnauthorized {
				t.Errorf("%s inside a session with the token %q: %+v", method, token, got)
			}
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a call without a token reached the server")
	}
	if got := alice.do(t, http.MethodPost, "/mcp", call, named...); got.status != http.StatusOK || !strings.Contains(got.body, "waited") {
		t.Errorf("with the token: %+v", got)
	}
}

func rs4(t *testing.T, p *protected) {
	token := p.token(t)
	body, headers := modernRequest(mcp.MethodToolsList, "", "")
	if got := p.do(t, http.MethodPost, "/mcp?access_token="+token, body, headers...); got.status != http.StatusUnauthorized {
		t.Errorf("in the query: %+v", got)
	}
	if got := p.do(t, http.MethodPost, "/mcp", "access_token="+token, "Content-Type", "application/x-www-form-urlencoded"); got.status != http.StatusUnauthorized {
		t.Errorf("in a form: %+v", got)
	}
	if got := p.do(t, http.MethodPost, "/mcp", body, append(headers, "Cookie", "access_token="+token)...); got.status != http.StatusUnauthorized {
		t.Errorf("in a cookie: %+v", got)
	}
}

func rs5(t *testing.T, p *protected) {
	if got := p.as(p.token(t)).tools(t); got.status != http.StatusOK || !strings.Contains(got.body, "a__pid") {
		t.Fatalf("a good token: %+v", got)
	}
	now := time.Now().Unix()
	key := p.a.keys["a1"]
	header := map[string]any{"alg": "EdDSA", "kid": "a1"}
	good := p.a.claims(public+"/mcp", p.good)
	forged := func(h map[string]any, key any) string { return signed(t, h, good, key) }
	parts := strings.Split(p.token(t), ".")
	bad := map[string]string{
		"expired":            p.token(t, "exp", now-120),
		"not yet":            p.token(t, "nbf", now+120),
		"from the future":    p.token(t, "iat", now+120),
		"no exp":             p.token(t, "exp", nil),
		"exp as text":        p.token(t, "exp", "never"),
		"bad signature":      parts[0] + "." + parts[1] + "." + b64.EncodeToString(make([]byte, 64)),
		"other claims":       parts[0] + "." + b64.EncodeToString([]byte(`{"sub":"root"}`)) + "." + parts[2],
		"none":               forged(map[string]any{"alg": "none"}, nil),
		"none in capitals":   forged(map[string]any{"alg": "NONE", "kid": "a1"}, nil),
		"HMAC of public key": forged(map[string]any{"alg": "HS256", "kid": "rsa"}, publicPEM(t, p.a.keys["rsa"])),
		"another algorithm":  forged(map[string]any{"alg": "EdDSA", "kid": "rsa"}, key),
		"unknown key":        forged(map[string]any{"alg": "EdDSA", "kid": "zz"}, key),
		"key of another":     signed(t, header, good, p.b.keys["b1"]),
		"wrong issuer":       p.token(t, "iss", "https://elsewhere.example"),
		"issuer with slash":  p.token(t, "iss", p.a.issuer+"/"),
		"issuer swapped":     p.token(t, "iss", p.b.issuer),
		"nobody":             p.token(t, "sub", nil),
		"empty subject":      p.token(t, "sub", ""),
		"control character":  p.token(t, "sub", "ali\nce"),
		"critical header":    forged(map[string]any{"alg": "EdDSA", "kid": "a1", "crit": []string{"x"}, "x": 1}, key),
		"its own key":        forged(map[string]any{"alg": "EdDSA", "jwk": jwkOf("own", newKeyPair(t))}, newKeyPair(t)),
		"an id token's type": forged(map[string]any{"alg": "EdDSA", "kid": "a1", "typ": "logout+jwt"}, key),
		"encrypted":          "e30.e30.e30.e30.e30",
		"one MiB":            strings.Repeat("a", 60<<10),
		"two tokens":         p.token(t) + " " + p.token(t),
		"like a key":         "tgk_" + strings.Repeat("a", 43),
		"bound by DPoP":      p.token(t, "cnf", map[string]any{"jkt": "x"}),
		"bound to a client":  p.token(t, "cnf", map[string]any{"x5t#S256": b64.EncodeToString(make([]byte, 32))}),
	}
	for name, token := range bad {
		got := p.as(token).tools(t)
		if got.status != http.StatusUnauthorized || got.challenge("error") != "invalid_token" || !strings.Contains(got.body, `"message":"The token is not valid"`) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	body, headers := modernRequest(mcp.MethodToolsList, "", "")
	twice := append(headers, "Authorization", "Bearer "+p.token(t))
	if got := p.as(p.token(t)).do(t, http.MethodPost, "/mcp", body, twice...); got.status != http.StatusUnauthorized {
		t.Errorf("two headers: %+v", got)
	}
	if got := p.do(t, http.MethodPost, "/mcp", body, append(headers, "Authorization", "Basic YTpi")...); got.status != http.StatusUnauthorized {
		t.Errorf("Basic: %+v", got)
	}
}

func rs6(t *testing.T, p *protected) {
	tests := []struct {
		name, endpoint string
		audience       any
		want           int
	}{
		{"its own", "/mcp", public + "/mcp", 200},
		{"one of several", "/mcp", []string{"https://other.example", public + "/mcp"}, 200},
		{"none", "/mcp", nil, 401},
		{"an empty list", "/mcp", []string{}, 401},
		{"another", "/mcp", "https://other.example/mcp", 401},
		{"longer", "/mcp", public + "/mcp.evil", 401},
		{"host with more", "/mcp", public + ".evil/mcp", 401},
		{"a trailing slash", "/mcp", public + "/mcp/", 401},
		{"the origin alone", "/mcp", public, 401},
		{"of a sibling", "/mcp", public + "/mcp/s/a", 401},
		{"of the main one at a sibling", "/mcp/s/a", public + "/mcp", 401},
		{"of the sibling", "/mcp/s/a", public + "/mcp/s/a", 200},
		{"of another sibling", "/mcp/s/a", public + "/mcp/s/web", 401},
		{"of a capsule", "/mcp/c/all", public + "/mcp/c/all", 200},
		{"a number", "/mcp", 7, 401},
	}
	for _, tt := range tests {
		token := p.token(t, "aud", tt.audience)
		if got := p.as(token).modern(t, tt.endpoint, mcp.MethodToolsList, "", ""); got.status != tt.want {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func rs7(t *testing.T, p *protected) {
	token := p.token(t)
	if got := p.as(token).use(t, "/mcp", "web__look", `{}`); got.status != http.StatusOK || !strings.Contains(got.body, "seen") {
		t.Fatalf("a call: %+v", got)
	}
	if got := p.as("key-of-ci").use(t, "/mcp", "web__look", `{}`); got.status != http.StatusOK {
		t.Fatalf("a call with a key: %+v", got)
	}
	seen := p.web.all()
	for _, secret := range []string{token, strings.Split(token, ".")[2], "key-of-ci", "Authorization", "eyJ"} {
		if strings.Contains(seen, secret) {
			t.Errorf("the server was sent %q", secret)
		}
	}
	if !strings.Contains(seen, "tools/call") {
		t.Error("the server has seen nothing, which proves nothing")
	}
}

func rs8(t *testing.T, p *protected) {
	without := p.use(t, "/mcp", "a__fail", `{}`)
	want := `Bearer scope="basic", resource_metadata="` + public + wellKnown + `/mcp"`
	if got := without.header.Get("WWW-Authenticate"); without.status != http.StatusUnauthorized || got != want {
		t.Errorf("without a token: %d %s, want %s", without.status, got, want)
	}
	bad := p.as("nonsense").use(t, "/mcp", "a__fail", `{}`)
	want = `Bearer error="invalid_token", scope="basic", resource_metadata="` + public + wellKnown + `/mcp"`
	if got := bad.header.Get("WWW-Authenticate"); bad.status != http.StatusUnauthorized || got != want {
		t.Errorf("with a bad one: %d %s, want %s", bad.status, got, want)
	}
}

func rs9(t *testing.T, p *protected) {
	use := func(scope, tool string) *response { return p.as(p.token(t, "scope", scope)).use(t, "/mcp", tool, `{}`) }
	got := use("mail basic", "a__fail")
	want := `Bearer error="insufficient_scope", scope="basic read write mail", resource_metadata="` + public + wellKnown + `/mcp"`
	if header := got.header.Get("WWW-Authenticate"); got.status != http.StatusForbidden || header != want {
		t.Errorf("one of three: %d %s, want %s", got.status, header, want)
	}
	if len(got.header.Values("WWW-Authenticate")) != 1 || !strings.Contains(got.body, `"id":1,"error":{"code":1002,`) || !strings.Contains(got.body, `"kind":"insufficient_scope"`) {
		t.Errorf("the body is not a JSON-RPC refusal: %+v", got)
	}
	for _, scope := range []string{"basic read write", "write basic read x", "basic admin"} {
		if got := use(scope, "a__fail"); got.status != http.StatusOK || !strings.Contains(got.body, "it did not work") {
			t.Errorf("scope %q: %+v", scope, got)
		}
	}
	if got := use("admin", "a__fail"); got.status != http.StatusForbidden || !strings.HasPrefix(got.challenge("scope"), "basic ") {
		t.Errorf("a broader scope lacks another: %+v", got)
	}
	if got := use("", "a__pid"); got.status != http.StatusOK {
		t.Errorf("what needs no scope: %+v", got)
	}
	// What may not be viewed is unknown, whatever its scopes, byte for byte.
	guest := p.as(p.token(t, "groups", []string{"guests"}, "scope", ""))
	hidden, unknown := guest.use(t, "/mcp", "a__fail", `{}`), guest.use(t, "/mcp", "a__none", `{}`)
	if hidden.status != unknown.status || strings.ReplaceAll(hidden.body, "a__fail", "a__none") != unknown.body || hidden.header.Get("WWW-Authenticate") != "" {
		t.Errorf("hidden %+v, unknown %+v", hidden, unknown)
	}
	// In a session too, and in a batch and on a stream inside JSON-RPC.
	plain := p.as(p.token(t, "scope", "basic"))
	call := `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"a__fail","arguments":{}}}`
	if got := plain.do(t, http.MethodPost, "/mcp", call, plain.session(t)...); got.status != http.StatusForbidden || got.challenge("error") != "insufficient_scope" || !strings.Contains(got.body, `"id":"x"`) {
		t.Errorf("in a session: %+v", got)
	}
	if o := p.runAs(t, p.token(t, "scope", "basic"), "call", "a__fail", "--file", p.file); o.code != exitDenied || !strings.Contains(o.stdout+o.stderr, "lacks the scope read write") {
		t.Errorf("over the socket: %+v", o)
	}
}
