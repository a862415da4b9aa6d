//go:build !windows

package cli

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

func rs11(t *testing.T, p *protected) {
	got := p.as(p.token(t, "scope", "basic offline_access")).use(t, "/mcp", "a__fail", `{}`)
	if got.status != http.StatusForbidden || strings.Contains(got.header.Get("WWW-Authenticate"), "offline_access") {
		t.Errorf("%+v", got)
	}
}

func rs12(t *testing.T, p *protected) {
	body, headers := modernRequest(mcp.MethodToolsList, "", "")
	for _, value := range []string{"Bearer", "Bearer ", "bearer", "Bearer  x", "Bearer a,b", "Bearer \"x\"", "x", " ", "Bearer \u00e9"} {
		got := p.do(t, http.MethodPost, "/mcp", body, append(slices.Clone(headers), "Authorization", value)...)
		if got.status != http.StatusUnauthorized && got.status != http.StatusBadRequest {
			t.Errorf("%q: %+v", value, got)
		}
	}
}

func rs14(t *testing.T, p *protected) {
	ok := p.opaque("opaque-good", p.active())
	if got := p.as(ok).tools(t); got.status != http.StatusOK || !strings.Contains(got.body, "a__pid") {
		t.Fatalf("a good one: %+v", got)
	}
	hour := time.Now().Add(-time.Hour).Unix()
	for name, tt := range map[string]struct {
		answer func() any
		want   int
	}{
		"inactive":        {p.active("active", false), 401},
		"active as text":  {p.active("active", "true"), 503},
		"other audience":  {p.active("aud", "https://other.example"), 401},
		"no audience":     {p.active("aud", nil), 401},
		"other client":    {p.active("client_id", "stranger"), 401},
		"other issuer":    {p.active("iss", "https://other.example"), 401},
		"expired":         {p.active("exp", hour), 401},
		"a refresh token": {p.active("token_use", "refresh"), 401},
		"nobody":          {p.active("sub", ""), 401},
		"failing":         {func() any { return 500 }, 503},
		"no JSON":         {func() any { return "<html>" }, 503},
		"half":            {func() any { return `{"active":true` }, 503},
		"doubled member":  {func() any { return `{"active":false,"active":true}` }, 503},
	} {
		got := p.as(p.opaque("opaque-"+strings.ReplaceAll(name, " ", "-"), tt.answer)).tools(t)
		if got.status != tt.want || tt.want == 503 && got.header.Get("Retry-After") == "" || !strings.Contains(got.body, `"jsonrpc":"2.0"`) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := p.as("never-heard-of").tools(t); got.status != http.StatusUnauthorized {
		t.Errorf("unknown: %+v", got)
	}
}

func rs15(t *testing.T, p *protected) {
	old := p.token(t)
	if got := p.as(old).tools(t); got.status != http.StatusOK {
		t.Fatalf("before: %+v", got)
	}
	// The issuer changes its keys while the gateway runs.
	withdrawn := p.a.keys["a1"]
	p.a.change(func() { p.a.keys["a2"] = newKeyPair(t) })
	next := p.a.token(t, "a2", public+"/mcp", p.good)
	testwait.Until(t, patience, "a token with the new key passes", func() bool { return p.as(next).tools(t).status == http.StatusOK })
	p.a.change(func() { delete(p.a.keys, "a1") })
	testwait.Until(t, patience, "a token with the old key is refused", func() bool {
		p.as(signed(t, map[string]any{"alg": "EdDSA", "kid": "unknown"}, p.a.claims(public+"/mcp", p.good), newKeyPair(t))).tools(t)
		token := signed(t, map[string]any{"alg": "EdDSA", "kid": "a1"}, p.a.claims(public+"/mcp", p.good), withdrawn)
		return p.as(token).tools(t).status == http.StatusUnauthorized
	})
	p.a.change(func() { p.a.keys["a1"] = withdrawn })
	testwait.Until(t, patience, "the old key is back", func() bool { return p.as(p.token(t)).tools(t).status == http.StatusOK })

	// Whatever clients send, the keys are fetched once in the cooldown, 30 s here.
	before := p.b.fetched()
	began := time.Now()
	for i := range 100 {
		token := signed(t, map[string]any{"alg": "EdDSA", "kid": fmt.Sprint("random", i)}, p.b.claims(public+"/mcp", p.good), newKeyPair(t))
		if got := p.as(token).tools(t); got.status != http.StatusUnauthorized {
			t.Fatalf("a random key: %+v", got)
		}
	}
	if got, most := p.b.fetched()-before, 1+int(time.Since(began)/(30*time.Second)); got > most {
		t.Errorf("%d fetches of keys for 100 tokens", got)
	}
	// Without the issuer the keys at hand serve.
	p.b.change(func() { p.b.down = true })
	if got := p.as(p.b.token(t, "b1", public+"/mcp", p.good)).tools(t); got.status != http.StatusOK {
		t.Errorf("with keys at hand while the issuer is down: %+v", got)
	}
	p.b.change(func() { p.b.down = false })
}

func rs16(t *testing.T, p *protected) {
	for _, tt := range []struct {
		name, key string
		want      int
	}{
		{"a token", p.token(t), exitOK},
		{"a key", "key-of-ci", exitOK},
		{"nothing", "", exitAuth},
		{"a bad token", p.token(t, "exp", 1), exitAuth},
		{"a token for another endpoint", p.token(t, "aud", public+"/sse"), exitAuth},
	} {
		o := p.runAs(t, tt.key, "call", "a__pid", "--file", p.file)
		if o.code != tt.want || tt.want != exitOK && !strings.Contains(o.stderr, "TOOLGATE_API_KEY") {
			t.Errorf("%s: %+v", tt.name, o)
		}
	}
}

func rs18(t *testing.T, p *protected) {
	for audience, want := range map[string]int{"HTTPS://GW.Example/mcp": 200, "https://gw.example/MCP": 401, "https://gw.example:443/mcp": 401, "https://gw.example/%6dcp": 401} {
		if got := p.as(p.token(t, "aud", audience)).tools(t); got.status != want {
			t.Errorf("%s: %+v", audience, got)
		}
	}
}

func rs19(t *testing.T, p *protected) {
	poison := []string{
		"X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "http", "X-Forwarded-Uri", "/evil", "X-Forwarded-For", "127.0.0.1",
		"Forwarded", "host=evil.example;proto=http", "X-Original-Url", "/livez", "X_Forwarded_User", "root", "X-Forwarded-User", "root",
	}
	want := p.do(t, http.MethodGet, wellKnown+"/mcp", "")
	got := p.do(t, http.MethodGet, wellKnown+"/mcp", "", append([]string{"Host", "evil.example"}, poison...)...)
	if got.status != want.status || got.body != want.body {
		t.Errorf("metadata: %+v, want %+v", got, want)
	}
	wantRefusal, refusal := p.tools(t), p.modern(t, "/mcp", mcp.MethodToolsList, "", "", poison...)
	if refusal.status != http.StatusUnauthorized || refusal.header.Get("WWW-Authenticate") != wantRefusal.header.Get("WWW-Authenticate") {
		t.Errorf("challenge: %+v", refusal)
	}
	if got := p.as(p.token(t)).modern(t, "/mcp", mcp.MethodToolsList, "", "", "Host", "evil.example"); got.status != http.StatusForbidden {
		t.Errorf("another Host: %+v", got)
	}
	if got := p.as(p.token(t)).modern(t, "/mcp", mcp.MethodToolsList, "", "", "Host", "gw.example"); got.status != http.StatusOK {
		t.Errorf("the public Host: %+v", got)
	}
}

// rs20 walks all doors without a credential.
func rs20(t *testing.T, p *protected) {
	paths := []string{
		"/", "/mcp", "/mcp/", "//mcp", "/mcp%2f", "/MCP", "/mcp;x", "/mcp/s/a", "/mcp/s/", "/mcp/c/all", "/sse", "/sse/", "/message",
		"/message?sessionId=x", "/metrics", "/debug/pprof/", "/debug/vars", "/admin", "/v1/status", "/v1/reload", "/v1/stdio", "/v1/make-room",
		"/approvals/x", "/health", "/healthz", "/test-connection", "/livez/", "/livez/../mcp", "/readyz?x", "/.well-known/openid-configuration", "/.well-known/", "/.well-known/oauth-protected-resource/../../mcp",
	}
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "TRACE", "MCP"}
	open := map[string]bool{"/approvals/x": true, "/readyz?x": true, "/.well-known/oauth-protected-resource/../../mcp": true} // answered without, and public or nothing
	for _, path := range paths {
		for _, method := range methods {
			got := p.do(t, method, path, "", "User-Agent", "GoogleHC/1.0")
			if open[path] {
				if strings.Contains(got.body, "tools") {
					t.Errorf("%s %s: %+v", method, path, got)
				}
				continue
			}
			if got.status != http.StatusUnauthorized || got.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s without a credential: %d %s", method, path, got.status, got.body)
			}
		}
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if got := p.do(t, http.MethodGet, path, ""); got.status != http.StatusOK || got.body != "ok\n" {
			t.Errorf("%s tells more than a word: %+v", path, got)
		}
	}
	// The control socket asks for its token, and behind it for a key.
	if err := os.Rename(p.stateFile(t, "admin.token"), p.path("kept.token")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ls", p.file}, {"reload", p.file}, {"why", "a__pid", "--file", p.file}, {"call", "a__pid", "--file", p.file}} {
		if o := p.runAs(t, p.token(t), args...); o.code != exitAuth {
			t.Errorf("%v without the admin token: %+v", args, o)
		}
	}
	if err := os.Rename(p.path("kept.token"), p.stateFile(t, "admin.token")); err != nil {
		t.Fatal(err)
	}
}

func rs21(t *testing.T, p *protected) {
	got := p.do(t, http.MethodOptions, "/mcp", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
	if got.status != http.StatusNoContent || got.header.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(got.header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight: %+v", got)
	}
	got = p.modern(t, "/mcp", mcp.MethodToolsList, "", "", "Origin", "https://app.example")
	exposed := got.header.Get("Access-Control-Expose-Headers")
	if got.status != http.StatusUnauthorized || !strings.Contains(exposed, "WWW-Authenticate") || !strings.Contains(exposed, "Mcp-Session-Id") {
		t.Errorf("a page reads no challenge: %+v", got)
	}
	got = p.as(p.token(t)).modern(t, "/mcp", mcp.MethodToolsList, "", "", "Origin", "https://evil.example")
	if got.status != http.StatusForbidden || got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another origin: %+v", got)
	}
	got = p.do(t, http.MethodOptions, wellKnown+"/mcp", "", "Origin", "https://any.example", "Access-Control-Request-Method", "GET")
	if got.status != http.StatusNoContent || got.header.Get("Access-Control-Allow-Origin") != "*" || got.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("preflight of metadata: %+v", got)
	}
}
